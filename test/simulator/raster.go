package simulator

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

const (
	pixelSize  = 0.001     // degrees, of all rasters of up to mostPixels pixels
	mostPixels = 2_000_000 // larger areas have pixels of twice the size, or four times, and so on
)

// kind is what the values of a raster are.
type kind struct {
	bands   []string
	bits    uint16 // of a value: 32 for floating point, 8 for classes
	nodata  string
	palette bool
	// put appends the values of a pixel.
	put func(file []byte, x, y wave, season float64) []byte
}

var (
	// ndvi is the mean of the NDVI, its standard deviation, and the share of clear observations. Where none was clear
	// only the last has a value.
	ndvi = kind{bands: []string{"NDVI", "DEVIATION", "CLEAR"}, bits: 32, nodata: "nan", put: putNDVI}
	// cover is a class of land cover, from 1 in the order of covers.
	cover = kind{bands: []string{"LANDCOVER"}, bits: 8, nodata: "0", palette: true, put: putCover}
)

var covers = []struct {
	name             string
	red, green, blue uint8
}{
	{"water", 64, 128, 200}, {"bare soil", 200, 170, 120}, {"grass", 190, 210, 110}, {"crops", 230, 180, 50},
	{"forest", 30, 110, 50},
}

// raster is a file of values over an area, in degrees of WGS 84. All rasters have pixels of one size, on one grid of
// the Earth, and a value depends on its place and its season alone, so that adjacent tiles form one picture: each
// pixel belongs to the tile in which its centre is.
type raster struct {
	kind
	west, north   int // index of the first pixel from the prime meridian to the east, and from the equator to the north
	columns, rows int
	degrees       float64 // of a pixel in degrees
	season        float64 // 0 in the middle of winter to 1 in the middle of summer
}

// over returns the raster of a scene.
func (k kind) over(s scene) raster {
	r := raster{kind: k, degrees: pixelSize, season: s.season()}
	east := s.area[2]
	if east < s.area[0] {
		east += 360 // across the antimeridian
	}
	for ; (east-s.area[0])*(s.area[3]-s.area[1])/r.degrees/r.degrees > mostPixels; r.degrees *= 2 {
	}
	first := func(at float64) int { return int(math.Ceil(at/r.degrees - 0.5)) } // pixel whose centre follows
	r.west, r.north = first(s.area[0]), first(s.area[3])
	r.columns, r.rows = max(1, first(east)-r.west), max(1, r.north-first(s.area[1]))
	return r
}

// season says how much of summer the middle of a scene's time span has, in the north.
func (s scene) season() float64 {
	middle := s.from.Add(s.to.Sub(s.from) / 2)
	return 0.5 - 0.5*math.Cos(2*math.Pi*float64(middle.YearDay()-15)/365)
}

// mean is the NDVI in the middle of a scene, of two decimals.
func (s scene) mean() float64 {
	x, y := waveAt((s.area[0]+s.area[2])/2), waveAt((s.area[1]+s.area[3])/2)
	return math.Round(100*greenness(x, y, s.season())) / 100
}

// wave is the height of two waves at a longitude or latitude: landscapes and fields.
type wave struct{ long, short float64 }

// waveAt returns the waves at an angle in degrees. Whole turns repeat them.
func waveAt(degrees float64) wave {
	turns := 2 * math.Pi * degrees
	return wave{math.Sin(turns * 1.5), math.Cos(turns * 9)}
}

// greenness is an NDVI: what is forest hardly changes with the season.
func greenness(x, y wave, season float64) float64 {
	landscape := 0.5 + 0.3*x.long*y.long + 0.1*x.short*y.short
	return landscape * (0.6 + 0.4*season + 0.2*(1-season)*x.long*y.long)
}

func putNDVI(file []byte, x, y wave, season float64) []byte {
	mean, deviation := greenness(x, y, season), 0.1+0.05*x.long-0.03*y.short
	seen := min(1, max(0, 0.5+0.3*season+0.5*x.long*y.short))
	if seen < 0.1 {
		mean, deviation = math.NaN(), math.NaN()
	}
	for _, value := range []float64{mean, deviation, seen} {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(float32(value)))
	}
	return file
}

func putCover(file []byte, x, y wave, _ float64) []byte {
	share := (greenness(x, y, 1) - 0.1) / 0.8 // 0 to 1
	return append(file, 1+uint8(min(share*float64(len(covers)), float64(len(covers)-1))))
}

// size is the length of the file.
func (r raster) size() int { return len(r.head()) + r.bytes() }

// bytes is how many bytes the pixels take.
func (r raster) bytes() int { return r.columns * r.rows * len(r.bands) * int(r.bits) / 8 }

// encode returns the file: a little-endian GeoTIFF 1.1, whose directory precedes the pixels.
func (r raster) encode() []byte {
	file := append(make([]byte, 0, r.size()), r.head()...)
	columns := make([]wave, r.columns)
	for i := range columns {
		columns[i] = waveAt((float64(r.west+i) + 0.5) * r.degrees)
	}
	for row := range r.rows {
		y := waveAt((float64(r.north-1-row) + 0.5) * r.degrees)
		for _, x := range columns {
			file = r.put(file, x, y, r.season)
		}
	}
	return file
}

const (
	ascii  = 2 // types of the values of TIFF tags
	short  = 3
	long   = 4
	double = 12
)

type tag struct {
	id, kind uint16
	count    uint32
	value    []byte
}

func text(id uint16, s string) tag {
	return tag{id, ascii, uint32(len(s) + 1), append([]byte(s), 0)}
}

func shorts(id uint16, vs ...uint16) tag {
	t := tag{id: id, kind: short, count: uint32(len(vs))}
	for _, v := range vs {
		t.value = binary.LittleEndian.AppendUint16(t.value, v)
	}
	return t
}

func longs(id uint16, vs ...uint32) tag {
	t := tag{id: id, kind: long, count: uint32(len(vs))}
	for _, v := range vs {
		t.value = binary.LittleEndian.AppendUint32(t.value, v)
	}
	return t
}

func doubles(id uint16, vs ...float64) tag {
	t := tag{id: id, kind: double, count: uint32(len(vs))}
	for _, v := range vs {
		t.value = binary.LittleEndian.AppendUint64(t.value, math.Float64bits(v))
	}
	return t
}

// each returns a value once for each band.
func (r raster) each(v uint16) []uint16 {
	all := make([]uint16, len(r.bands))
	for i := range all {
		all[i] = v
	}
	return all
}

// tags describe the raster, by TIFF 6.0, GeoTIFF 1.1 and GDAL. The pixels begin at the offset pixels.
func (r raster) tags(pixels uint32) []tag {
	var names strings.Builder
	for i, name := range r.bands {
		fmt.Fprintf(&names, `<Item name="DESCRIPTION" sample="%d" role="description">%s</Item>`, i, name)
	}
	format, colours := uint16(3), uint16(1) // floating point; the first band is black at its least value
	if r.palette {
		format, colours = 1, 3 // whole numbers; a table of colours
	}
	tags := []tag{
		longs(256, uint32(r.columns)),
		longs(257, uint32(r.rows)),
		shorts(258, r.each(r.bits)...),
		shorts(259, 1), // not compressed
		shorts(262, colours),
		longs(273, pixels), // one strip
		shorts(277, uint16(len(r.bands))),
		longs(278, uint32(r.rows)), // of the strip
		longs(279, uint32(r.bytes())),
		shorts(284, 1), // the values of a pixel lie side by side
	}
	if r.palette {
		tags = append(tags, r.colours())
	}
	if further := r.each(0)[1:]; len(further) > 0 {
		tags = append(tags, shorts(338, further...)) // no band is transparency
	}
	return append(tags, shorts(339, r.each(format)...), doubles(33550, r.degrees, r.degrees, 0),
		doubles(33922, 0, 0, 0, float64(r.west)*r.degrees, float64(r.north)*r.degrees, 0),
		// GeoTIFF 1.1 with three keys: geographic coordinates, pixels as areas, EPSG:4326.
		shorts(34735, 1, 1, 1, 3, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, 4326),
		text(42112, "<GDALMetadata>"+names.String()+"</GDALMetadata>"), text(42113, r.nodata))
}

// colours is the table of the colours of classes: the reds, greens and blues of all values of a byte.
func (r raster) colours() tag {
	table := make([]uint16, 3*256)
	for i, c := range covers {
		for k, v := range []uint8{c.red, c.green, c.blue} {
			table[k*256+i+1] = uint16(v) * 257
		}
	}
	return shorts(320, table...)
}

// head returns what precedes the pixels: the header, the directory, and the values that are too long for the directory.
func (r raster) head() []byte {
	const header, entry = 8, 12
	tags := r.tags(0)
	after := header + 2 + entry*len(tags) + 4 // the directory
	pixels := after
	for _, t := range tags {
		if len(t.value) > 4 {
			pixels += len(t.value) + len(t.value)%2
		}
	}
	le := binary.LittleEndian
	head := le.AppendUint32([]byte("II*\x00"), header)
	head = le.AppendUint16(head, uint16(len(tags)))
	var far []byte
	for _, t := range r.tags(uint32(pixels)) {
		head = le.AppendUint16(head, t.id)
		head = le.AppendUint16(head, t.kind)
		head = le.AppendUint32(head, t.count)
		if len(t.value) > 4 {
			head = le.AppendUint32(head, uint32(after+len(far)))
			far = append(far, t.value...)
			if len(far)%2 != 0 {
				far = append(far, 0) // values begin at even offsets
			}
			continue
		}
		head = append(head, append(t.value, make([]byte, 4-len(t.value))...)...)
	}
	head = le.AppendUint32(head, 0) // no further directory
	return append(head, far...)
}
