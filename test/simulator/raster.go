package simulator

import (
	"encoding/binary"
	"math"
)

const (
	rasterSide  = 200 // pixels
	rasterBands = 3   // the mean of the NDVI, its standard deviation, and the share of clear observations
	pixelBytes  = rasterSide * rasterSide * rasterBands * 4
)

// raster is a file of NDVI values over an area, in degrees of WGS 84. A value depends on the place alone, so that the
// rasters of adjacent tiles form one picture.
type raster struct{ area box }

// width returns the degrees from west to east, also across the antimeridian.
func (r raster) width() float64 {
	if w := r.area[2] - r.area[0]; w >= 0 {
		return w
	}
	return r.area[2] - r.area[0] + 360
}

func (r raster) height() float64 { return r.area[3] - r.area[1] }

func (r raster) size() int { return len(r.head()) + pixelBytes }

// encode returns the file: a little-endian GeoTIFF 1.1 of float32 values, whose directory precedes the pixels.
func (r raster) encode() []byte {
	file := append(make([]byte, 0, r.size()), r.head()...)
	columns, rows := make([]wave, rasterSide), make([]wave, rasterSide)
	for i := range rasterSide {
		columns[i] = waveAt(r.area[0] + r.width()*(float64(i)+0.5)/rasterSide)
		rows[i] = waveAt(r.area[3] - r.height()*(float64(i)+0.5)/rasterSide)
	}
	for _, y := range rows {
		for _, x := range columns {
			mean := 0.5 + 0.3*x.long*y.long + 0.1*x.short*y.short
			deviation := 0.1 + 0.05*x.long - 0.03*y.short
			clear := 0.7 + 0.2*x.long*y.short
			for _, value := range [rasterBands]float64{mean, deviation, clear} {
				file = binary.LittleEndian.AppendUint32(file, math.Float32bits(float32(value)))
			}
		}
	}
	return file
}

// wave is the height of two waves at a longitude or latitude: landscapes and fields.
type wave struct{ long, short float64 }

// waveAt returns the waves at an angle in degrees. Whole turns repeat them.
func waveAt(degrees float64) wave {
	turns := 2 * math.Pi * degrees
	return wave{math.Sin(turns * 1.5), math.Cos(turns * 9)}
}

const (
	short  = 3 // types of the values of TIFF tags
	long   = 4
	double = 12
)

type tag struct {
	id, kind uint16
	count    uint32
	value    []byte
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

// tags describe the raster, by TIFF 6.0 and GeoTIFF 1.1. The pixels begin at the offset pixels.
func (r raster) tags(pixels uint32) []tag {
	return []tag{
		shorts(256, rasterSide), // width
		shorts(257, rasterSide), // height
		shorts(258, 32, 32, 32), // bits of a value
		shorts(259, 1),          // not compressed
		shorts(262, 1),          // the first band is black at its least value
		longs(273, pixels),      // one strip
		shorts(277, rasterBands),
		shorts(278, rasterSide), // rows of the strip
		longs(279, pixelBytes),
		shorts(284, 1),       // the values of a pixel lie side by side
		shorts(338, 0, 0),    // no band is transparency
		shorts(339, 3, 3, 3), // floating point
		doubles(33550, r.width()/rasterSide, r.height()/rasterSide, 0),
		doubles(33922, 0, 0, 0, r.area[0], r.area[3], 0),
		// GeoTIFF 1.1 with three keys: geographic coordinates, pixels as areas, EPSG:4326.
		shorts(34735, 1, 1, 1, 3, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, 4326),
	}
}

// head returns what precedes the pixels: the header, the directory, and the values that are too long for the directory.
func (r raster) head() []byte {
	const header, entry = 8, 12
	tags := r.tags(0)
	after := header + 2 + entry*len(tags) + 4 // the directory
	pixels := after
	for _, t := range tags {
		if len(t.value) > 4 {
			pixels += len(t.value)
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
			continue
		}
		head = append(head, append(t.value, make([]byte, 4-len(t.value))...)...)
	}
	head = le.AppendUint32(head, 0) // no further directory
	return append(head, far...)
}
