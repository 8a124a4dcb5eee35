package page

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// drops drops a file on the map.
func (b *tab) drops(name string, content []byte) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(map => {
		if (!map) return false;
		const files = new DataTransfer();
		files.items.add(new File([Uint8Array.from(atob(%q), c => c.charCodeAt(0))], %q));
		map.dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true}));
		return true;
	})(document.querySelector(".map"))`, base64.StdEncoding.EncodeToString(content), name))
}

// corners waits until the fields show a box: west, south, east and north.
func (b *tab) corners(box string) {
	b.t.Helper()
	b.until(fmt.Sprintf(
		`["west", "south", "east", "north"].map(n => document.querySelector("[name=" + n + "]")?.value).join() === %q`,
		box))
}

// types types a box.
func (b *tab) types(box ...string) {
	b.t.Helper()
	for i, side := range []string{"west", "south", "east", "north"} {
		b.fills("[name="+side+"]", box[i])
	}
	b.corners(strings.Join(box, ","))
}

// shapefile returns a zipped shapefile of one rectangle.
func shapefile(t *testing.T, west, south, east, north float64) []byte {
	t.Helper()
	box := []float64{west, south, east, north}
	ring := []float64{west, south, west, north, east, north, east, south, west, south}
	doubles := func(b []byte, vs ...float64) []byte {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		return b
	}
	integers := func(vs ...uint32) (b []byte) {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	polygon := append(doubles(integers(5), box...), integers(1, uint32(len(ring)/2), 0)...)
	polygon = doubles(polygon, ring...)
	record := append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), uint32(len(polygon)/2)),
		polygon...)
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 9994), 0)
	head = append(head, make([]byte, 16)...)
	head = binary.BigEndian.AppendUint32(head, uint32((100+len(record))/2))
	head = doubles(append(head, integers(1000, 5)...), append(box, 0, 0, 0, 0)...)
	var file bytes.Buffer
	archive := zip.NewWriter(&file)
	for name, content := range map[string][]byte{"area.shp": append(head, record...),
		"area.prj": []byte(
			`GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]`)} {
		w, err := archive.Create(name)
		must(t, err)
		_, err = w.Write(content)
		must(t, err)
	}
	must(t, archive.Close())
	return file.Bytes()
}

// circle returns a GeoJSON polygon of n corners around 5 degrees east and 51 degrees north.
func circle(n int) []byte {
	var ring []string
	for i := range n + 1 {
		at := 2 * math.Pi * float64(i%n) / float64(n)
		ring = append(ring, fmt.Sprintf("[%.6f,%.6f]", 5+math.Cos(at)/4, 51+math.Sin(at)/4))
	}
	return []byte(`{"type":"Feature","properties":{},"geometry":{"type":"Polygon","coordinates":[[` +
		strings.Join(ring, ",") + `]]}}`)
}

const kml = `<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document><Style id="s"><IconStyle><Icon><href>https://elsewhere.example/x.png</href></Icon></IconStyle></Style>
<Placemark><styleUrl>#s</styleUrl><Polygon><outerBoundaryIs><LinearRing><coordinates>4,50,0 4.5,50,0 4.5,50.5,0 4,50.5,0 4,50,0</coordinates></LinearRing></outerBoundaryIs></Polygon></Placemark></Document></kml>`

// TestPage_Areas gives areas by files, by GeoJSON and by coordinates: ordinary ones, one of 10,000 corners, one that
// crosses itself, and ones at the antimeridian and the pole. The last one is run, and the way back leads to the form as
// it was. Beside the records of requests, the Content-Security-Policy may have refused no request.
func TestPage_Areas(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	// Chromium styles what it says of broken XML
	b.read(
		`(window.refused = [], document.addEventListener("securitypolicyviolation", e => e.blockedURI === "inline" || refused.push(e.blockedURI)), "")`)
	b.drops("area.kml", []byte(kml))
	b.corners("4,50,4.5,50.5")
	b.drops("area.zip", shapefile(t, 6, 49, 6.5, 49.25))
	b.corners("6,49,6.5,49.25")
	b.drops("broken.kml", []byte("<kml><Polygon>"))
	b.until(`document.querySelector(".notice.error")?.innerText.includes("broken.kml")`)
	b.drops("circle.geojson", circle(10_000))
	b.corners("4.75,50.75,5.25,51.25")
	b.presses("Split into tiles")
	b.until(`document.querySelector("fieldset.box").innerText.includes("at most 10,000 tiles")`) // before it is hit
	b.until(`Number(document.querySelector("[data-tiles]")?.dataset.tiles) > 3`)
	b.drops("wedge.geojson", []byte(`{"type":"Polygon","coordinates":[[[4,50],[6,50],[6,50.5],[4,50]]]}`))
	b.until(
		`Number(document.querySelector("[data-slivers]")?.dataset.slivers) > 0 && document.querySelector("[data-slivers]").innerText.includes("dashed")`)
	b.screenshot("slivers")

	b.presses("As GeoJSON")
	b.until(`document.querySelector("details textarea").value.includes("50.5")`)
	b.fills("details textarea", `{"type":"Polygon","coordinates":[[[5,50],[6,51],[6,50],[5,51],[5,50]]]}`)
	b.presses("Use this geometry")
	b.sees("[data-crosses]")
	b.until(`document.querySelector("[name=size]").innerText.includes("not defined")`)

	b.types("179", "-17", "-179", "-16")
	b.until(
		`Number(document.querySelector("[data-tiles]")?.dataset.tiles) > 50 && !document.querySelector("[data-crosses]")`)
	b.types("-170", "88", "170", "90")
	b.until(
		`Number(document.querySelector("[data-tiles]")?.dataset.tiles) > 100 && document.querySelector("[data-view=run]")`)
	for said, box := range map[string][]string{"tiles are more than the limit of 10,000": {"0", "40", "40", "60"},
		"about 1,195,829 tiles": {"-180", "-80", "180", "80"}} {
		b.types(box...)
		b.until(fmt.Sprintf(
			`document.querySelector("fieldset.box .notice.error")?.innerText.includes(%q) && !document.querySelector("fieldset.box").innerText.includes("a job for each")`, said))
		b.clicks("button[type=submit]")
		b.until(
			fmt.Sprintf(`document.querySelector("[data-view=run] form > div .notice.error")?.innerText.includes(%q)`,
				said))
	}
	b.presses("One job")
	b.types("179.9", "-17", "-179.9", "-16.9")
	b.fills("[name=from]", "2024-06-01")
	b.fills("[name=until]", "2024-07-01")
	b.clicks("button[type=submit]")
	b.shows("review")
	b.until(`document.querySelector("[data-format=gtiff]").innerText === "GeoTIFF"`)
	b.presses("Start the job")
	b.sees(`[data-view=job][data-status=finished]`)
	b.until(
		`document.querySelector("[data-parameter=spatial_extent]").innerText.includes("west 179.9, south -17, east -179.9")`)
	if refused := b.read(`refused.join()`); refused != "" {
		t.Errorf("the Content-Security-Policy refused %s", refused)
	}

	b.read(`(history.back(), "")`)
	b.shows("run") // as it was filled in
	b.corners("179.9,-17,-179.9,-16.9")
	b.sees("[data-started]")
}
