package cli

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/peterstace/simplefeatures/geom"
)

// polygonsInZip returns all polygons of the one shapefile in a zip archive.
func polygonsInZip(ctx context.Context, text []byte) ([]geom.Polygon, error) {
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, fmt.Errorf("not a zip archive: %w", err)
	}
	parts := map[string]*zip.File{}
	var shapes []string
	for _, f := range archive.File {
		name := strings.ToLower(f.Name)
		parts[name] = f
		if path.Ext(name) == ".shp" && !strings.HasPrefix(name, "__macosx/") {
			shapes = append(shapes, name)
		}
	}
	if len(shapes) != 1 {
		return nil, fmt.Errorf("the archive has %d files with the extension .shp; it must have one", len(shapes))
	}
	shape, err := unzipped(parts[shapes[0]])
	if err != nil {
		return nil, err
	}
	system, err := unzipped(parts[strings.TrimSuffix(shapes[0], ".shp")+".prj"])
	if err != nil {
		return nil, err
	}
	return polygonsOfShapefile(ctx, shape, system)
}

// unzipped returns the content of a file in an archive; nil for none.
func unzipped(f *zip.File) ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	in, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s in the archive cannot be read: %w", f.Name, err)
	}
	defer in.Close()
	text, err := readBounded(in)
	if err != nil {
		return nil, fmt.Errorf("%s in the archive cannot be read: %w", f.Name, err)
	}
	return text, nil
}

// polygonsBeside returns all polygons of a shapefile whose reference system is in the file .prj beside it.
func polygonsBeside(ctx context.Context, file string, text []byte) ([]geom.Polygon, error) {
	system, err := readFile(file[:len(file)-len(".shp")] + ".prj")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return polygonsOfShapefile(ctx, text, system)
}

// wgs84 matches the description, in WKT, of longitude and latitude by WGS 84.
var wgs84 = regexp.MustCompile(`(?i)^\s*(GEOGCS|GEOGCRS)\s*\[\s*"(GCS_)?WGS[ _]?(19)?84"`)

// errShapefile is the error for a shapefile that breaks off or contradicts itself.
var errShapefile = errors.New("damaged, or not a shapefile")

const (
	shapeHeader  = 100  // bytes before the first record
	shapeCode    = 9994 // first number of a shapefile
	recordHeader = 8    // bytes before the content of a record
	partsAt      = 44   // bytes before the list of rings in a record
	positionSize = 16   // bytes
)

// polygonsOfShapefile returns all polygons of a shapefile (ESRI Shapefile Technical Description, 1998), without heights
// and measures. system is the content of its file .prj; nil: there is none.
func polygonsOfShapefile(ctx context.Context, text, system []byte) (all []geom.Polygon, err error) {
	if system != nil && !wgs84.Match(system) {
		return nil, fmt.Errorf("its reference system is %s; %s", oneLine(string(system), 80), convertIt)
	}
	if len(text) < shapeHeader || binary.BigEndian.Uint32(text) != shapeCode {
		return nil, errShapefile
	}
	for rest := text[shapeHeader:]; len(rest) > 0; {
		if len(rest) < recordHeader {
			return nil, errShapefile
		}
		length := 2 * uint64(binary.BigEndian.Uint32(rest[4:])) // counted in words of 16 bits
		rest = rest[recordHeader:]
		if length > uint64(len(rest)) {
			return nil, errShapefile
		}
		rings, err := ringsOfShape(rest[:length])
		if err != nil {
			return nil, err
		}
		shape, err := assembled(ctx, rings)
		if err != nil {
			return nil, err
		}
		all, rest = append(all, shape...), rest[length:]
	}
	return all, nil
}

// ringsOfShape returns the rings of a record; none for the null shape.
func ringsOfShape(record []byte) ([]geom.LineString, error) {
	if len(record) < 4 {
		return nil, errShapefile
	}
	switch kind := binary.LittleEndian.Uint32(record); kind {
	case 0:
		return nil, nil
	case 5, 15, 25: // Polygon, PolygonZ, PolygonM: the latter two have further numbers at the end
	default:
		return nil, fmt.Errorf("it has shapes of the type %d, and not polygons", kind)
	}
	if len(record) < partsAt {
		return nil, errShapefile
	}
	parts, positions := uint64(binary.LittleEndian.Uint32(record[36:])), uint64(binary.LittleEndian.Uint32(record[40:]))
	positionsAt := partsAt + 4*parts
	if positionsAt+positionSize*positions > uint64(len(record)) {
		return nil, errShapefile
	}
	rings := make([]geom.LineString, parts)
	for i := range rings {
		from, to := uint64(binary.LittleEndian.Uint32(record[partsAt+4*i:])), positions
		if i+1 < len(rings) {
			to = uint64(binary.LittleEndian.Uint32(record[partsAt+4*i+4:]))
		}
		if from > to || to > positions {
			return nil, errShapefile
		}
		numbers := make([]float64, 2*(to-from))
		if _, err := binary.Decode(record[positionsAt+positionSize*from:], binary.LittleEndian, numbers); err != nil {
			return nil, errShapefile
		}
		rings[i] = ringOf(numbers)
	}
	return rings, nil
}

// assembled makes polygons of the rings of one shape: a ring that runs clockwise begins one, and each of the others is
// a hole of the smallest that it lies in, or else a polygon too. It ends with ctx.
func assembled(ctx context.Context, rings []geom.LineString) ([]geom.Polygon, error) {
	var all [][]geom.LineString
	var outer []geom.Polygon
	var boxes []geom.Envelope
	var holes []geom.LineString
	for _, ring := range rings {
		if p := geom.NewPolygon([]geom.LineString{ring}); p.IsCCW() {
			holes = append(holes, ring)
		} else {
			all, outer, boxes = append(all, []geom.LineString{ring}), append(outer, p), append(boxes, p.Envelope())
		}
	}
	for _, hole := range holes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		within := geom.NewPolygon([]geom.LineString{hole}).PointOnSurface().AsGeometry()
		around, box := -1, hole.Envelope()
		for i, o := range outer {
			if boxes[i].Covers(box) && (around < 0 || o.Area() < outer[around].Area()) &&
				geom.Intersects(o.AsGeometry(), within) {
				around = i
			}
		}
		if around < 0 {
			all = append(all, []geom.LineString{hole})
		} else {
			all[around] = append(all[around], hole)
		}
	}
	polygons := make([]geom.Polygon, len(all))
	for i, rings := range all {
		polygons[i] = geom.NewPolygon(rings)
	}
	return polygons, nil
}
