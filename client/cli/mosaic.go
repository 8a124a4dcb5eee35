package cli

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/client"
)

// itemsFile has all Items of a task, for programs that read GeoJSON.
const itemsFile = "items.json"

const vrtHelp = "for a task: also write mosaic.vrt, one raster of all GeoTIFFs for GDAL, QGIS and rasterio; one " +
	"for each time and kind of file"

// tile is a downloaded GeoTIFF of a task.
type tile struct {
	geotiff
	path, asset, time string
}

// addTile notes a GeoTIFF for the mosaics.
func (d *downloads) addTile(i client.Item, asset, place string) {
	file, err := d.root.Open(place)
	if err != nil {
		return // it could not be downloaded, which has been noted
	}
	defer file.Close()
	header, err := readGeoTIFF(file)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.unfit = append(d.unfit, fmt.Errorf("%s: %w", place, err))
		return
	}
	d.tiles = append(d.tiles, tile{header, place, asset, startOfItem(i)})
}

// writeMosaics writes a VRT for all GeoTIFFs of one time and kind.
func (d *downloads) writeMosaics() error {
	groups := map[[3]string][]tile{}
	distinct := [3]map[string]bool{{}, {}, {}}
	for _, t := range d.tiles {
		key := [3]string{t.time, t.asset, t.alike()}
		groups[key] = append(groups[key], t)
		for i, part := range key {
			distinct[i][part] = true
		}
	}
	names := map[string]bool{}
	for key, tiles := range groups {
		parts := []string{"mosaic"}
		for i, part := range []string{key[0], strings.TrimSuffix(key[1], path.Ext(key[1])),
			fmt.Sprint("EPSG", tiles[0].epsg)} {
			if len(distinct[i]) > 1 {
				parts = append(parts, safeField(part))
			}
		}
		name := client.SafeName(strings.Join(parts, "_"))
		for n := 2; names[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s_%d", strings.Join(parts, "_"), n)
		}
		names[strings.ToLower(name)] = true
		if err := d.write(name+".vrt", mosaicOf(tiles)); err != nil {
			return err
		}
	}
	if len(d.unfit) > 0 {
		d.hint("%d files are not part of a mosaic: %v", len(d.unfit), d.unfit[0])
	}
	return nil
}

// vrt is GDAL's virtual raster.
type vrt struct {
	XMLName   xml.Name  `xml:"VRTDataset"`
	Width     int       `xml:"rasterXSize,attr"`
	Height    int       `xml:"rasterYSize,attr"`
	SRS       string    `xml:"SRS"`
	Transform string    `xml:"GeoTransform"`
	Bands     []vrtBand `xml:"VRTRasterBand"`
}

type vrtBand struct {
	Kind        string      `xml:"dataType,attr"`
	Number      int         `xml:"band,attr"`
	Description string      `xml:"Description,omitempty"`
	Nodata      string      `xml:"NoDataValue,omitempty"`
	Sources     []vrtSource `xml:"ComplexSource"`
}

type vrtSource struct {
	File struct {
		Relative int    `xml:"relativeToVRT,attr"`
		Name     string `xml:",chardata"`
	} `xml:"SourceFilename"`
	Band   int     `xml:"SourceBand"`
	From   vrtRect `xml:"SrcRect"`
	To     vrtRect `xml:"DstRect"`
	Nodata string  `xml:"NODATA,omitempty"`
}

type vrtRect struct {
	X      float64 `xml:"xOff,attr"`
	Y      float64 `xml:"yOff,attr"`
	Width  float64 `xml:"xSize,attr"`
	Height float64 `xml:"ySize,attr"`
}

// mosaicOf returns the virtual raster of files of one kind, with the smallest pixels that one of them has.
func mosaicOf(tiles []tile) vrt {
	slices.SortFunc(tiles, func(a, b tile) int { return cmp.Compare(a.path, b.path) })
	whole := tiles[0].geotiff
	east, south := math.Inf(-1), math.Inf(1)
	for _, t := range tiles {
		whole.west, whole.north = min(whole.west, t.west), max(whole.north, t.north)
		whole.dx, whole.dy = min(whole.dx, t.dx), min(whole.dy, t.dy)
		east, south = max(east, t.west+float64(t.width)*t.dx), min(south, t.north-float64(t.height)*t.dy)
	}
	v := vrt{Width: int(math.Round((east - whole.west) / whole.dx)),
		Height: int(math.Round((whole.north - south) / whole.dy)), SRS: fmt.Sprintf("EPSG:%d", whole.epsg),
		Transform: fmt.Sprintf("%.17g, %.17g, 0, %.17g, 0, %.17g", whole.west, whole.dx, whole.north, -whole.dy)}
	for i, name := range whole.bands {
		band := vrtBand{Kind: whole.kind, Number: i + 1, Description: name, Nodata: whole.nodata}
		for _, t := range tiles {
			s := vrtSource{Band: i + 1, Nodata: t.nodata,
				From: vrtRect{Width: float64(t.width), Height: float64(t.height)},
				To: vrtRect{pixels((t.west - whole.west) / whole.dx), pixels((whole.north - t.north) / whole.dy),
					pixels(float64(t.width) * t.dx / whole.dx), pixels(float64(t.height) * t.dy / whole.dy)}}
			s.File.Relative, s.File.Name = 1, t.path
			band.Sources = append(band.Sources, s)
		}
		v.Bands = append(v.Bands, band)
	}
	return v
}

// pixels returns a number of pixels: a whole one, if it is one but for rounding.
func pixels(n float64) float64 {
	if whole := math.Round(n); math.Abs(n-whole) < 1e-3 {
		return whole
	}
	return n
}

// write writes a document as XML.
func (d *downloads) write(name string, document any) error {
	text, err := xml.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return d.replace(name, text)
}

// addItem keeps an Item for the index of the task, whose assets refer to the files from the folder itself.
func (d *downloads) addItem(i client.Item, job int64, files map[string]string) error {
	here := maps.Clone(files)
	for key, file := range here {
		here[key] = "./" + file
	}
	document, err := localized(i.Raw, i.Assets, here)
	if err != nil {
		return err
	}
	// readers of STAC take the links as relative to self
	relink(document, link{"self", "./" + itemsFile, "application/geo+json"},
		link{"canonical", "./" + d.layout.item(job), "application/geo+json"},
		link{"collection", "./" + collectionFile, "application/json"})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs[job] = document
	return nil
}

// writeItems writes the index: a FeatureCollection of the Items.
func (d *downloads) writeItems() error {
	index := struct {
		Type     string `json:"type"`
		Features []any  `json:"features"`
	}{"FeatureCollection", []any{}}
	for _, job := range slices.Sorted(maps.Keys(d.jobs)) {
		index.Features = append(index.Features, d.jobs[job])
	}
	return d.writeJSON(itemsFile, index)
}
