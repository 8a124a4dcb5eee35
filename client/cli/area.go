package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/peterstace/simplefeatures/geom"
)

const areaHelp = `AREA is a bounding box in degrees (west,south,east,north; west > east crosses the antimeridian), a file, or the English
name of a country. Files are GeoJSON, KML, a shapefile (zipped, or .shp with its .prj beside it) or a GeoPackage with
one layer, in longitude and latitude (WGS 84); the area is all their polygons. "-" reads GeoJSON from standard input.`

// convertIt is what to do with an area in another reference system.
const convertIt = "convert it to longitude and latitude (ogr2ogr -t_srs EPSG:4326 area.geojson FILE)"

const mostAreaFile = 64 << 20 // bytes

// areaWithin bounds the time in which a file is read: the tables of a GeoPackage can be views without an end.
var areaWithin = 30 * time.Second

var errSlowArea = errors.New("reading it takes too long: write its polygons as GeoJSON " +
	"(ogr2ogr -t_srs EPSG:4326 area.geojson FILE)")

// readArea returns an area as a GeoJSON Polygon or MultiPolygon. Several features become one MultiPolygon.
func (a *app) readArea(ctx context.Context, area string) (json.RawMessage, error) {
	if box, ok, err := boxFrom(area); ok {
		if err != nil {
			return nil, err
		}
		a.saysWhere(box)
		return box.MarshalJSON()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, areaWithin, errSlowArea)
	defer cancel()
	polygons, err := a.polygonsIn(ctx, area)
	if context.Cause(ctx) == errSlowArea {
		err = errSlowArea
	}
	if err == nil {
		polygons, err = checked(polygons)
	}
	switch {
	case err != nil:
		return nil, usage("the area %s cannot be used: %w", area, err)
	case len(polygons) == 1:
		return polygons[0].MarshalJSON()
	}
	return geom.NewMultiPolygon(polygons).MarshalJSON()
}

// polygonsIn returns the polygons of a file or, if there is no such file, of a country.
func (a *app) polygonsIn(ctx context.Context, area string) ([]geom.Polygon, error) {
	extension := strings.ToLower(filepath.Ext(area))
	if extension == ".gpkg" {
		if _, err := os.Stat(area); err != nil {
			return nil, err
		}
		return polygonsOfGeoPackage(ctx, area)
	}
	text, err := readFile(area)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(area, `/\`) {
		polygons, unknown := a.polygonsOfCountry(area)
		if unknown != nil {
			return nil, fmt.Errorf("it is neither west,south,east,north nor a file, %w", unknown)
		}
		return polygons, nil
	}
	if err != nil {
		return nil, err
	}
	switch extension {
	case ".zip":
		return polygonsInZip(ctx, text)
	case ".shp":
		return polygonsBeside(ctx, area, text)
	case ".kml":
		return polygonsOfKML(text)
	}
	return polygonsOf(text)
}

const farthest = 540 // degrees of longitude, as the broker accepts them for areas across the antimeridian

// checked returns polygons without empty ones. It refuses what cannot be an area in longitude and latitude, above all
// coordinates of a projected system.
func checked(polygons []geom.Polygon) (all []geom.Polygon, err error) {
	for _, p := range polygons {
		positions := p.DumpCoordinates()
		for i := range positions.Length() {
			at := positions.GetXY(i)
			if !(math.Abs(at.X) <= farthest && math.Abs(at.Y) <= 90) { // NaN is neither
				return nil, fmt.Errorf("[%v %v] is not a position in degrees, [longitude, latitude]; %s", at.X, at.Y,
					convertIt)
			}
		}
		if positions.Length() > 0 {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no polygon")
	}
	return all, nil
}

// readFile reads a file of a user, or standard input.
func readFile(name string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return readBounded(in)
}

func readBounded(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, mostAreaFile+1))
	if err == nil && len(text) > mostAreaFile {
		err = fmt.Errorf("it is larger than %d MiB", mostAreaFile>>20)
	}
	return text, err
}

// boxFrom reads west,south,east,north. ok is false for anything that is not four numbers.
func boxFrom(text string) (box geom.Geometry, ok bool, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return box, false, nil
	}
	var b [4]float64
	for i, p := range parts {
		if b[i], err = strconv.ParseFloat(strings.TrimSpace(p), 64); err != nil || math.IsNaN(b[i]) ||
			math.IsInf(b[i], 0) {
			return box, false, nil
		}
	}
	w, s, e, n := b[0], b[1], b[2], b[3]
	crosses := w > e && e+360-w <= widestCrossing
	if min(w, e) < -180 || max(w, e) > 180 || s < -90 || n > 90 || s >= n || w >= e && !crosses {
		return box, true,
			usage("the area %q is not a box in degrees: write west,south,east,north with west < east and south < "+
				"north. Across the antimeridian, west > east, and the box is at most %v degrees wide", text,
				widestCrossing)
	}
	if crosses { // in two parts (RFC 7946, section 3.1.9)
		return geom.NewMultiPolygon([]geom.Polygon{rectangle(w, s, 180, n), rectangle(-180, s, e, n)}).AsGeometry(),
			true, nil
	}
	return rectangle(w, s, e, n).AsGeometry(), true, nil
}

// widestCrossing is how many degrees wide a box across the antimeridian may be. In a wider one west and east are more
// likely confused.
const widestCrossing = 180.0

func rectangle(w, s, e, n float64) geom.Polygon {
	return geom.NewPolygon([]geom.LineString{ringOf([]float64{w, s, e, s, e, n, w, n, w, s})})
}

// ringOf returns the ring of longitudes, each followed by its latitude.
func ringOf(numbers []float64) geom.LineString {
	return geom.NewLineString(geom.NewSequence(numbers, geom.DimXY))
}

// polygonsOf returns all polygons of a GeoJSON object.
func polygonsOf(text []byte) (all []geom.Polygon, err error) {
	type feature struct {
		Geometry json.RawMessage `json:"geometry"`
	}
	var o struct {
		feature
		Type     string          `json:"type"`
		Features []feature       `json:"features"`
		CRS      json.RawMessage `json:"crs"`
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("it is not GeoJSON: %w", faultOf(err))
	}
	if crs := string(o.CRS); crs != "" && crs != "null" && !strings.Contains(crs, "CRS84") &&
		!strings.Contains(crs, "4326") {
		return nil, fmt.Errorf("its reference system is %s; %s", oneLine(crs, 80), convertIt)
	}
	switch o.Type {
	case "Feature":
		o.Features = []feature{o.feature}
	case "FeatureCollection":
	default:
		o.Features = []feature{{text}}
	}
	for _, f := range o.Features {
		if len(f.Geometry) == 0 || string(f.Geometry) == "null" { // it has no place (RFC 7946, 3.2)
			continue
		}
		g, err := geom.UnmarshalGeoJSON(f.Geometry, geom.NoValidate{}) // the broker judges the geometry
		if err != nil {
			return nil, errors.New("it is not GeoJSON: a geometry has an unknown type, or coordinates that are not " +
				"lists of positions")
		}
		found, err := polygonsOfGeometry(g)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// polygonsOfGeometry returns the polygons of a geometry without heights and measures.
func polygonsOfGeometry(g geom.Geometry) (all []geom.Polygon, err error) {
	for _, part := range g.Force2D().Dump() {
		p, ok := part.AsPolygon()
		if !ok {
			return nil, fmt.Errorf("a %q is not an area; write polygons", part.Type())
		}
		all = append(all, p)
	}
	return all, nil
}

// faultOf returns the error of reading JSON, without the names of this program's types.
func faultOf(err error) error {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	if e.Field == "" {
		return fmt.Errorf("it is a JSON %s, not an object", e.Value)
	}
	member := e.Field[strings.LastIndexByte(e.Field, '.')+1:]
	return fmt.Errorf("its member %q cannot be of the type %s", member, e.Value)
}

// polygonsOfKML returns all polygons of a KML document (OGC KML 2.3), without their heights.
func polygonsOfKML(text []byte) (all []geom.Polygon, err error) {
	type boundary struct {
		Coordinates string `xml:"LinearRing>coordinates"`
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("it is not KML: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "Polygon" {
			continue
		}
		var p struct {
			Outer boundary   `xml:"outerBoundaryIs"`
			Inner []boundary `xml:"innerBoundaryIs"`
		}
		if err := d.DecodeElement(&p, &start); err != nil {
			return nil, fmt.Errorf("it is not KML: %w", err)
		}
		var rings []geom.LineString
		for _, b := range append([]boundary{p.Outer}, p.Inner...) {
			numbers, err := numbersOf(b.Coordinates)
			if err != nil {
				return nil, err
			}
			rings = append(rings, ringOf(numbers))
		}
		all = append(all, geom.NewPolygon(rings))
	}
}

// numbersOf returns the longitudes and latitudes of positions in KML.
func numbersOf(text string) (numbers []float64, err error) {
	for position := range strings.FieldsSeq(text) {
		parts := strings.Split(position, ",")
		if len(parts) < 2 {
			return nil, fmt.Errorf("%q is not a position", position)
		}
		x, errX := strconv.ParseFloat(parts[0], 64)
		y, errY := strconv.ParseFloat(parts[1], 64)
		if err := errors.Join(errX, errY); err != nil {
			return nil, err
		}
		numbers = append(numbers, x, y)
	}
	return numbers, nil
}

// boxAround returns a GeoJSON area and the box around it. ok is false for what is no area, and for what may cross the
// antimeridian: openEO defines no box across it.
func boxAround(area json.RawMessage) (g geom.Geometry, box geom.Envelope, ok bool) {
	g, err := geom.UnmarshalGeoJSON(area, geom.NoValidate{})
	box = g.Envelope()
	southWest, northEast, covers := box.MinMaxXYs()
	// an uncut polygon runs clockwise on the map (RFC 7946, section 3.1.6), and a cut one has several parts
	narrow := box.Width() <= 180 || g.IsPolygon() && g.IsCCW()
	return g, box, err == nil && covers && southWest.X >= -180 && northEast.X <= 180 && narrow
}
