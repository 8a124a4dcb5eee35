package cli

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// geotiff is what the first directory of a GeoTIFF says of its pixels.
type geotiff struct {
	width, height int
	west, north   float64 // outer corner of the first pixel, in the reference system
	dx, dy        float64 // size of a pixel
	epsg          int     // of the reference system
	kind          string  // of the values, in the words of GDAL
	nodata        string  // "": none
	bands         []string
}

// Tags of TIFF 6.0, GeoTIFF 1.1 and GDAL.
const (
	tagWidth, tagHeight, tagBits, tagBands, tagFormat = 256, 257, 258, 277, 339
	tagScale, tagTiepoint, tagKeys                    = 33550, 33922, 34735
	tagMetadata, tagNodata                            = 42112, 42113
	keyGeographic, keyProjected                       = 2048, 3072
	keyRaster                                         = 1025 // 2: positions are those of the middles of pixels
)

var errNoGeoTIFF = errors.New("not a GeoTIFF of a known form")

// kinds are the names of GDAL for the types of values, by the tag SampleFormat and the bits of a value.
var kinds = map[[2]float64]string{{1, 8}: "Byte", {1, 16}: "UInt16", {1, 32}: "UInt32", {2, 8}: "Int8",
	{2, 16}: "Int16", {2, 32}: "Int32", {3, 32}: "Float32", {3, 64}: "Float64"}

// readGeoTIFF reads the header of a file, also of a BigTIFF.
func readGeoTIFF(file io.ReaderAt) (geotiff, error) {
	d, err := readDirectory(file)
	if err != nil {
		return geotiff{}, err
	}
	one := func(tag uint16, otherwise float64) float64 {
		if list := d.numbers[tag]; len(list) > 0 {
			return list[0]
		}
		return otherwise
	}
	bands := one(tagBands, 1)
	if !(bands >= 1 && bands <= math.MaxUint16) {
		return geotiff{}, errNoGeoTIFF
	}
	g := geotiff{width: int(one(tagWidth, 0)), height: int(one(tagHeight, 0)),
		kind:   kinds[[2]float64{one(tagFormat, 1), one(tagBits, 0)}],
		nodata: d.texts[tagNodata], bands: make([]string, int(bands))}
	g.nameBands(d.texts[tagMetadata])
	scale, tie := d.numbers[tagScale], d.numbers[tagTiepoint]
	if g.width < 1 || g.height < 1 || g.kind == "" || len(scale) < 2 || len(tie) < 6 || scale[0] <= 0 || scale[1] <= 0 {
		return g, errNoGeoTIFF
	}
	g.dx, g.dy = scale[0], scale[1]
	g.west, g.north = tie[3]-tie[0]*g.dx, tie[4]+tie[1]*g.dy
	keys := d.numbers[tagKeys]
	for i := 4; i+3 < len(keys); i += 4 {
		switch value := int(keys[i+3]); {
		case keys[i] == keyRaster && value == 2:
			g.west, g.north = g.west-g.dx/2, g.north+g.dy/2
		case keys[i] == keyProjected, keys[i] == keyGeographic && g.epsg == 0:
			g.epsg = value
		}
	}
	if g.epsg < 1024 || g.epsg > 32766 {
		return g, errors.New("its reference system has no EPSG code")
	}
	return g, nil
}

// nameBands fills in the names of bands as GDAL writes them.
func (g *geotiff) nameBands(metadata string) {
	var all struct {
		Items []struct {
			Sample int    `xml:"sample,attr"`
			Role   string `xml:"role,attr"`
			Text   string `xml:",chardata"`
		} `xml:"Item"`
	}
	_ = xml.Unmarshal([]byte(metadata), &all) // bands need no names
	for _, item := range all.Items {
		if item.Role == "description" && item.Sample >= 0 && item.Sample < len(g.bands) {
			g.bands[item.Sample] = item.Text
		}
	}
}

// directory has the values of the tags of a file.
type directory struct {
	numbers map[uint16][]float64
	texts   map[uint16]string
}

const (
	mostTags   = 1000
	mostValues = 1 << 16 // bytes of a tag's values; tables of tiles, which may be longer, are not read
)

// readDirectory reads the first directory of a TIFF.
func readDirectory(file io.ReaderAt) (d directory, err error) {
	head := make([]byte, 16)
	if _, err := file.ReadAt(head, 0); err != nil {
		return d, errNoGeoTIFF
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(head[:2]) == "MM" {
		order = binary.BigEndian
	}
	at, counted, entry, inside := int64(order.Uint32(head[4:])), 2, 12, 4
	switch order.Uint16(head[2:]) {
	case 42:
	case 43:
		at, counted, entry, inside = int64(order.Uint64(head[8:])), 8, 20, 8
	default:
		return d, errNoGeoTIFF
	}
	number := func(b []byte) int64 { // of the width that the kind of the file has
		switch len(b) {
		case 2:
			return int64(order.Uint16(b))
		case 4:
			return int64(order.Uint32(b))
		}
		return int64(order.Uint64(b) & math.MaxInt64)
	}
	n := make([]byte, counted)
	if _, err := file.ReadAt(n, at); err != nil || number(n) > mostTags {
		return d, errNoGeoTIFF
	}
	entries := make([]byte, int(number(n))*entry)
	if _, err := file.ReadAt(entries, at+int64(counted)); err != nil {
		return d, errNoGeoTIFF
	}
	d = directory{map[uint16][]float64{}, map[uint16]string{}}
	for ; len(entries) > 0; entries = entries[entry:] {
		tag, kind, count := order.Uint16(entries), order.Uint16(entries[2:]), number(entries[4:4+inside])
		size := map[uint16]int64{1: 1, 2: 1, 3: 2, 4: 4, 12: 8, 16: 8}[kind]
		if size == 0 || count < 1 || count > mostValues/size {
			continue
		}
		value := entries[4+inside : 4+2*inside]
		if length := count * size; length > int64(inside) {
			from := number(value)
			value = make([]byte, length)
			if _, err := file.ReadAt(value, from); err != nil {
				return d, errNoGeoTIFF
			}
		}
		if kind == 2 {
			d.texts[tag] = strings.TrimRight(string(value[:count]), "\x00 ")
			continue
		}
		for i := range count {
			part := value[i*size : (i+1)*size]
			switch {
			case kind == 12:
				d.numbers[tag] = append(d.numbers[tag], math.Float64frombits(order.Uint64(part)))
			case size == 1:
				d.numbers[tag] = append(d.numbers[tag], float64(part[0]))
			default:
				d.numbers[tag] = append(d.numbers[tag], float64(number(part)))
			}
		}
	}
	return d, nil
}

// alike says which files can be one mosaic.
func (g geotiff) alike() string { return fmt.Sprint(g.epsg, g.kind, len(g.bands)) }
