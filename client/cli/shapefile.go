package cli

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"regexp"
	"strings"
)

// polygonsInZip returns all polygons of the one shapefile in a zip archive.
func polygonsInZip(text []byte) ([]polygon, error) {
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
	return polygonsOfShapefile(shape, system)
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
func polygonsBeside(file string, text []byte) ([]polygon, error) {
	system, err := readFile(file[:len(file)-len(".shp")] + ".prj")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return polygonsOfShapefile(text, system)
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
func polygonsOfShapefile(text, system []byte) (all []polygon, err error) {
	if system != nil && !wgs84.Match(system) {
		return nil, fmt.Errorf("its reference system is %s; %s", oneLine(string(system), 80), convertIt)
	}
	if len(text) < shapeHeader || binary.BigEndian.Uint32(text) != shapeCode {
		return nil, errShapefile
	}
	left := mostAssembly
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
		shape, err := assembled(rings, &left)
		if err != nil {
			return nil, err
		}
		all, rest = append(all, shape...), rest[length:]
	}
	return all, nil
}

// ringsOfShape returns the rings of a record; none for the null shape.
func ringsOfShape(record []byte) ([][][]float64, error) {
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
	rings := make([][][]float64, parts)
	for i := range rings {
		from, to := uint64(binary.LittleEndian.Uint32(record[partsAt+4*i:])), positions
		if i+1 < len(rings) {
			to = uint64(binary.LittleEndian.Uint32(record[partsAt+4*i+4:]))
		}
		if from > to || to > positions {
			return nil, errShapefile
		}
		rings[i] = ringAt(record[positionsAt+positionSize*from : positionsAt+positionSize*to])
	}
	return rings, nil
}

func ringAt(text []byte) [][]float64 {
	ring := make([][]float64, len(text)/positionSize)
	for i := range ring {
		at := text[positionSize*i:]
		ring[i] = []float64{math.Float64frombits(binary.LittleEndian.Uint64(at)),
			math.Float64frombits(binary.LittleEndian.Uint64(at[8:]))}
	}
	return ring
}

// mostAssembly is how many steps it may take to find the polygons of the holes in one file, about a second.
const mostAssembly = 200_000_000

var errManyHoles = errors.New("one shape has too many rings; simplify it, or make each polygon a feature (ogr2ogr " +
	"-explodecollections area.geojson FILE)")

// outline is an outer ring with what tells quickly that another one does not lie in it.
type outline struct {
	ring                     [][]float64
	area                     float64
	west, south, east, north float64
}

func outlineOf(ring [][]float64) outline {
	o := outline{ring, signedArea(ring), math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, at := range ring {
		o.west, o.east = min(o.west, at[0]), max(o.east, at[0])
		o.south, o.north = min(o.south, at[1]), max(o.north, at[1])
	}
	return o
}

func (o outline) overlaps(p outline) bool {
	return o.west <= p.east && p.west <= o.east && o.south <= p.north && p.south <= o.north
}

// assembled makes polygons of the rings of one shape: a ring that runs clockwise begins one, and each of the others is
// a hole of the smallest that it lies in, or else a polygon too. It takes the steps that this needs from left.
func assembled(rings [][][]float64, left *int) ([]polygon, error) {
	var all []polygon
	var outer, holes []outline
	for _, ring := range rings {
		if o := outlineOf(ring); o.area <= 0 {
			all, outer = append(all, polygon{ring}), append(outer, o)
		} else {
			holes = append(holes, o)
		}
	}
	for _, hole := range holes {
		around := -1
		for i, o := range outer {
			*left--
			if !o.overlaps(hole) || around >= 0 && o.area <= outer[around].area {
				continue
			}
			if *left -= 2 * sample * len(o.ring); *left < 0 {
				return nil, errManyHoles
			}
			if liesIn(hole.ring, o.ring) {
				around = i
			}
		}
		if *left < 0 {
			return nil, errManyHoles
		}
		if around < 0 {
			all = append(all, polygon{hole.ring})
		} else {
			all[around] = append(all[around], hole.ring)
		}
	}
	return all, nil
}

// signedArea returns twice the area within a ring: above 0 if it runs counter-clockwise.
func signedArea(ring [][]float64) (sum float64) {
	for i := range ring {
		a, b := ring[i], ring[(i+1)%len(ring)]
		sum += a[0]*b[1] - b[0]*a[1]
	}
	return sum
}

const sample = 16 // positions of a ring that liesIn tries, up to twice as many

// liesIn reports whether a ring lies in another one, which it may touch: most of a sample of its positions do.
func liesIn(inner, outer [][]float64) bool {
	within, tried := 0, 0
	for i := 0; i < len(inner); i += max(1, len(inner)/sample) {
		if tried++; surrounds(outer, inner[i]) {
			within++
		}
	}
	return 2*within > tried
}

// surrounds reports whether a position lies in a ring: whether a line from it to the east crosses the ring an odd
// number of times.
func surrounds(ring [][]float64, at []float64) (inside bool) {
	for i := range ring {
		a, b := ring[i], ring[(i+1)%len(ring)]
		if (a[1] > at[1]) != (b[1] > at[1]) && at[0] < a[0]+(at[1]-a[1])/(b[1]-a[1])*(b[0]-a[0]) {
			inside = !inside
		}
	}
	return inside
}
