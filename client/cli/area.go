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
	if box, ok, err := boxFrom(area); ok || err != nil {
		a.saysWhere(box)
		return box, err
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
	if err != nil {
		return nil, usage("the area %s cannot be used: %w", area, err)
	}
	if len(polygons) == 1 {
		return json.Marshal(map[string]any{"type": "Polygon", "coordinates": polygons[0]})
	}
	return json.Marshal(map[string]any{"type": "MultiPolygon", "coordinates": polygons})
}

// polygonsIn returns the polygons of a file or, if there is no such file, of a country.
func (a *app) polygonsIn(ctx context.Context, area string) ([]polygon, error) {
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
		return polygonsInZip(text)
	case ".shp":
		return polygonsBeside(area, text)
	case ".kml":
		return polygonsOfKML(text)
	}
	return polygonsOf(text, 0)
}

const farthest = 540 // degrees of longitude, as the broker accepts them for areas across the antimeridian

// checked returns polygons without empty ones and heights. It refuses what cannot be an area in longitude and latitude,
// above all coordinates of a projected system.
func checked(polygons []polygon) (all []polygon, err error) {
	for _, p := range polygons {
		positions := 0
		for _, ring := range p {
			for i, at := range ring {
				if len(at) < 2 || !(math.Abs(at[0]) <= farthest && math.Abs(at[1]) <= 90) { // NaN is neither
					return nil, fmt.Errorf("%v is not a position in degrees, [longitude, latitude]; %s", at, convertIt)
				}
				ring[i] = at[:2]
				positions++
			}
		}
		if positions > 0 {
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
func boxFrom(text string) (box json.RawMessage, ok bool, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return nil, false, nil
	}
	var b [4]float64
	for i, p := range parts {
		if b[i], err = strconv.ParseFloat(strings.TrimSpace(p), 64); err != nil || math.IsNaN(b[i]) ||
			math.IsInf(b[i], 0) {
			return nil, false, nil
		}
	}
	w, s, e, n := b[0], b[1], b[2], b[3]
	crosses := w > e && e+360-w <= widestCrossing
	if min(w, e) < -180 || max(w, e) > 180 || s < -90 || n > 90 || s >= n || w >= e && !crosses {
		return nil, true,
			usage("the area %q is not a box in degrees: write west,south,east,north with west < east and south < "+
				"north. Across the antimeridian, west > east, and the box is at most %v degrees wide", text,
				widestCrossing)
	}
	if crosses { // in two parts (RFC 7946, section 3.1.9)
		box, err = json.Marshal(map[string]any{"type": "MultiPolygon", "coordinates": []polygon{rectangle(w, s, 180, n),
			rectangle(-180, s, e, n)}})
		return box, true, err
	}
	box, err = json.Marshal(map[string]any{"type": "Polygon", "coordinates": rectangle(w, s, e, n)})
	return box, true, err
}

// widestCrossing is how many degrees wide a box across the antimeridian may be. In a wider one west and east are more
// likely confused.
const widestCrossing = 180.0

func rectangle(w, s, e, n float64) polygon { return polygon{{{w, s}, {e, s}, {e, n}, {w, n}, {w, s}}} }

// polygon is the rings of a GeoJSON Polygon.
type polygon [][][]float64

const deepest = 10 // levels of collections

// polygonsOf returns all polygons of a GeoJSON object.
func polygonsOf(text []byte, depth int) ([]polygon, error) {
	var o struct {
		Type        string            `json:"type"`
		Coordinates json.RawMessage   `json:"coordinates"`
		Geometry    json.RawMessage   `json:"geometry"`
		Features    []json.RawMessage `json:"features"`
		Geometries  []json.RawMessage `json:"geometries"`
		CRS         json.RawMessage   `json:"crs"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), &o); err != nil {
		return nil, fmt.Errorf("it is not GeoJSON: %w", faultOf(err))
	}
	if crs := string(o.CRS); crs != "" && crs != "null" && !strings.Contains(crs, "CRS84") &&
		!strings.Contains(crs, "4326") {
		return nil, fmt.Errorf("its reference system is %s; %s", oneLine(crs, 80), convertIt)
	}
	if depth > deepest {
		return nil, errors.New("its collections are nested too deeply")
	}
	inner := append(o.Features, o.Geometries...)
	switch o.Type {
	case "Polygon":
		var p polygon
		err := coordinates(o.Coordinates, &p)
		return []polygon{p}, err
	case "MultiPolygon":
		var all []polygon
		err := coordinates(o.Coordinates, &all)
		return all, err
	case "Feature":
		if geometry := string(o.Geometry); geometry == "" || geometry == "null" { // it has no place (RFC 7946, 3.2)
			return nil, nil
		}
		inner = []json.RawMessage{o.Geometry}
	case "FeatureCollection", "GeometryCollection":
	default:
		return nil, fmt.Errorf("a %q is not an area; write polygons", o.Type)
	}
	var all []polygon
	for _, text := range inner {
		found, err := polygonsOf(text, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// coordinates reads the coordinates of a geometry into v, which stays as it is if they are missing.
func coordinates(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return errors.New("its coordinates are not lists of positions as in GeoJSON")
	}
	return nil
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
func polygonsOfKML(text []byte) (all []polygon, err error) {
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
		var rings polygon
		for _, b := range append([]boundary{p.Outer}, p.Inner...) {
			ring, err := ringOf(b.Coordinates)
			if err != nil {
				return nil, err
			}
			rings = append(rings, ring)
		}
		all = append(all, rings)
	}
}

func ringOf(text string) (ring [][]float64, err error) {
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
		ring = append(ring, []float64{x, y})
	}
	return ring, nil
}

// sizes returns the sizes of a GeoJSON area and of the box around it, in a unit of their own; 0, 0 for what is no such
// area or crosses the antimeridian.
func sizes(area json.RawMessage) (inside, box float64) {
	around, crosses, err := boxAround(area)
	var b struct{ West, South, East, North float64 }
	if err != nil || crosses || json.Unmarshal(around, &b) != nil {
		return 0, 0
	}
	polygons, err := polygonsOf(area, 0)
	if err != nil {
		return 0, 0
	}
	width := math.Cos((b.South + b.North) / 2 * math.Pi / 180) // of a degree of longitude
	for _, p := range polygons {
		for i, ring := range p {
			twice := 0.
			for k, at := range ring {
				next := ring[(k+1)%len(ring)]
				twice += at[0]*next[1] - next[0]*at[1]
			}
			if part := width * math.Abs(twice) / 2; i == 0 {
				inside += part
			} else {
				inside -= part // a hole
			}
		}
	}
	return inside, width * (b.East - b.West) * (b.North - b.South)
}

// boxAround returns the bounding box of a GeoJSON Polygon or MultiPolygon, as openEO writes it, unless the area crosses
// the antimeridian: openEO defines no box across it.
func boxAround(area json.RawMessage) (box json.RawMessage, crosses bool, err error) {
	polygons, err := polygonsOf(area, 0)
	if err != nil {
		return nil, false, err
	}
	west, south, east, north := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	ends, begins := false, false // there
	for _, p := range polygons {
		first, last := math.Inf(1), math.Inf(-1)
		for _, ring := range p {
			for _, at := range ring {
				if len(at) < 2 {
					return nil, false, usage("the area has a position without two numbers")
				}
				first, south, last, north = min(first, at[0]), min(south, at[1]), max(last, at[0]), max(north, at[1])
			}
		}
		crosses = crosses || first < -180 || last > 180 || len(p) > 0 && jumps(p[0])
		ends, begins = ends || last == 180 && first > -180, begins || first == -180 && last < 180
		west, east = min(west, first), max(east, last)
	}
	if crosses || ends && begins {
		return nil, true, nil
	}
	box, err = json.Marshal(map[string]float64{"west": west, "south": south, "east": east, "north": north})
	return box, false, err
}

// jumps reports whether an outer ring, which is written counterclockwise (RFC 7946, section 3.1.6), is so only if it
// crosses the antimeridian where two positions are more than half the globe apart.
func jumps(ring [][]float64) bool {
	wide, area := false, 0.0
	for i := 1; i < len(ring); i++ {
		a, b := ring[i-1], ring[i]
		wide = wide || math.Abs(a[0]-b[0]) > 180 && math.Abs(a[0]-b[0]) < 360
		area += a[0]*b[1] - b[0]*a[1]
	}
	return wide && area < 0
}
