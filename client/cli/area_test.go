package cli_test

import (
	"archive/zip"
	"bytes"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/client/cli"
)

// areaOf returns what the command tiles sends to the broker for an area.
func areaOf(t *testing.T, area string, outlines func() []byte) (string, error) {
	t.Helper()
	var sent struct{ AOI json.RawMessage }
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"geometries":[]}`) // the test shows what is missing
	}))
	defer broker.Close()
	err := executeWith(t, cli.Console{Out: io.Discard, Err: io.Discard, Outlines: outlines,
		Environ: []string{"EODISPATCH_BROKER=" + broker.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}},
		"tiles", area, "--grid", "20x20km")
	return string(sent.AOI), err
}

// ring is a closed ring around a square, clockwise as a shapefile has outer rings, or in the other direction.
func ring(west, south, size float64, clockwise bool) [][2]float64 {
	r := [][2]float64{{west, south}, {west, south + size}, {west + size, south + size}, {west + size, south},
		{west, south}}
	if !clockwise {
		r[1], r[3] = r[3], r[1]
	}
	return r
}

// shapefile is a file .shp with a shape of a type for each list of rings.
func shapefile(kind uint32, shapes ...[][][2]float64) []byte {
	text := make([]byte, 100)
	binary.BigEndian.PutUint32(text, 9994)
	for i, rings := range shapes {
		record := binary.LittleEndian.AppendUint32(nil, kind)
		record = append(record, make([]byte, 32)...) // the box, which is not read
		var positions []byte
		record = binary.LittleEndian.AppendUint32(record, uint32(len(rings)))
		n := uint32(0)
		var starts []byte
		for _, r := range rings {
			starts = binary.LittleEndian.AppendUint32(starts, n)
			n += uint32(len(r))
			positions, _ = binary.Append(positions, binary.LittleEndian, r) // of numbers
		}
		record = append(append(binary.LittleEndian.AppendUint32(record, n), starts...), positions...)
		text = binary.BigEndian.AppendUint32(text, uint32(i+1))
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(record)/2)), record...)
	}
	return text
}

func zipped(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var text bytes.Buffer
	archive := zip.NewWriter(&text)
	for name, content := range files {
		w, err := archive.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "area.zip"), text.String())
}

const degrees = `GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]`

func TestArea_FromAShapefile(t *testing.T) {
	shape := shapefile(5, [][][2]float64{ring(4, 50, 2, true), ring(4.5, 50.5, 1, false), ring(4.7, 50.7, 0.2, true),
		ring(4.8, 50.75, 0.1, false)}, [][][2]float64{ring(9, 50, 1, false)})
	want :=
		`{"type":"MultiPolygon","coordinates":[` +
			`[[[4,50],[4,52],[6,52],[6,50],[4,50]],[[4.5,50.5],[5.5,50.5],[5.5,51.5],[4.5,51.5],[4.5,50.5]]],` +
			`[[[4.7,50.7],[4.7,50.900000000000006],[4.9,50.900000000000006],[4.9,50.7],[4.7,50.7]],[[4.8,50.75],[4.8999999999999995,50.75],[4.8999999999999995,50.85],[4.8,50.85],[4.8,50.75]]],` +
			`[[[9,50],[10,50],[10,51],[9,51],[9,50]]]]}`
	beside := filepath.Join(t.TempDir(), "area.SHP")
	write(t, beside, string(shape))
	for name, file := range map[string]string{"zipped": zipped(t, map[string][]byte{"below/a.shp": shape,
		"below/a.PRJ": []byte(degrees), "__MACOSX/a.shp": nil}), "without system": zipped(t,
		map[string][]byte{"a.shp": shape}), "alone": beside} {
		if got, err := areaOf(t, file, nil); got != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// TestArea_LeavesOutFeaturesWithoutAPlace: a feature may have no geometry (RFC 7946, 3.2).
func TestArea_LeavesOutFeaturesWithoutAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "area.geojson")
	const square = `[[[4,50],[5,50],[5,51],[4,51],[4,50]]]`
	for text, right := range map[string]bool{
		`{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": null, "properties": {}}, {"type": "Feature"},
			{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": ` + square + `}}]}`: true,
		`{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": null}]}`: false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sent, err := areaOf(t, file, nil)
		if right && (err != nil || !strings.Contains(sent, square)) || !right &&
			(err == nil || !strings.Contains(err.Error(), "no polygon")) {
			t.Errorf("%s: %s, %v", text, sent, err)
		}
	}
}

func TestArea_SaysWhatIsWrongWithAFile(t *testing.T) {
	square := [][][2]float64{ring(4, 50, 1, true)}
	shape := shapefile(5, square)
	far := bytes.Clone(shape)
	binary.LittleEndian.PutUint32(far[100+8+40:], 1<<31) // positions
	for name, row := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"no shapefile":   {map[string][]byte{"a.txt": nil}, "has 0 files with the extension .shp"},
		"two shapefiles": {map[string][]byte{"a.shp": shape, "b.shp": shape}, "has 2 files with the extension .shp"},
		"metres": {map[string][]byte{"a.shp": shape,
			"a.prj": []byte(`PROJCS["ETRS89_LAEA_Europe",GEOGCS["GCS_WGS_1984"]]`)}, "its reference system is PROJCS"},
		"another datum": {map[string][]byte{"a.shp": shape, "a.prj": []byte(`GEOGCS["GCS_North_American_1927"]`)},
			"ogr2ogr -t_srs EPSG:4326"},
		"points":          {map[string][]byte{"a.shp": shapefile(1, square)}, "shapes of the type 1"},
		"empty":           {map[string][]byte{"a.shp": shapefile(5)}, "has no polygon"},
		"torn":            {map[string][]byte{"a.shp": shape[:len(shape)-1]}, "damaged"},
		"too many points": {map[string][]byte{"a.shp": far}, "damaged"},
		"text":            {map[string][]byte{"a.shp": []byte("hello")}, "not a shapefile"},
		"metres unsaid": {map[string][]byte{"a.shp": shapefile(5, [][][2]float64{ring(500000, 5600000, 10, true)})},
			"not a position in degrees"},
	} {
		if _, err := areaOf(t, zipped(t, row.files), nil); cli.ExitCode(err) != cli.ExitUsage ||
			!strings.Contains(cli.Explain(err), row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for file, want := range map[string]string{"area.zip": "not a zip archive", "area.gpkg": "not a GeoPackage"} {
		if _, err := areaOf(t, write(t, filepath.Join(t.TempDir(), file), "PK"),
			nil); !strings.Contains(cli.Explain(err), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := areaOf(t, filepath.Join(t.TempDir(), "nowhere.gpkg"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// geoPackage writes a GeoPackage with a geometry in each layer.
func geoPackage(t *testing.T, system int, layers map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(folder, "new"))
	if err != nil {
		t.Fatal(err)
	}
	do := func(statement string, values ...any) {
		if _, err := db.Exec(statement, values...); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE TABLE gpkg_spatial_ref_sys (srs_id INTEGER, organization TEXT, organization_coordsys_id INTEGER)`)
	do(`CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT)`)
	do(`CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT, srs_id INTEGER)`)
	do(`INSERT INTO gpkg_spatial_ref_sys VALUES (?, 'EPSG', ?)`, system, system)
	for name, blob := range layers {
		do(`INSERT INTO gpkg_contents VALUES (?, 'features')`, name)
		do(`INSERT INTO gpkg_geometry_columns VALUES (?, 'the "geom"', ?)`, name, system)
		do(`CREATE TABLE "` + name + `" (fid INTEGER PRIMARY KEY, "the ""geom""" BLOB)`)
		do(`INSERT INTO "`+name+`" VALUES (1, ?), (2, NULL)`, blob)
	}
	file := filepath.Join(folder, "it's #1?.gpkg") // as users name files
	if err := errors.Join(db.Close(), os.Rename(filepath.Join(folder, "new"), file)); err != nil {
		t.Fatal(err)
	}
	return file
}

// blob is a geometry of a GeoPackage: a header, with an envelope, and WKB of a polygon.
func blob(rings ...[][2]float64) []byte {
	text := append([]byte{'G', 'P', 0, 1 | 1<<1, 0, 0, 0, 0}, make([]byte, 32)...)
	text = append(text, 1, 3, 0, 0, 0)
	text = binary.LittleEndian.AppendUint32(text, uint32(len(rings)))
	for _, r := range rings {
		text = binary.LittleEndian.AppendUint32(text, uint32(len(r)))
		text, _ = binary.Append(text, binary.LittleEndian, r) // of numbers
	}
	return text
}

// wkb is a geometry of a GeoPackage: a header without an envelope, and WKB.
func wkb(text ...byte) []byte { return append([]byte{'G', 'P', 0, 1, 0, 0, 0, 0}, text...) }

// A GeoPackage whose layer is a view without an end, with or without rows, is given up.
func TestArea_EndlessGeoPackage(t *testing.T) {
	defer cli.SetAreaTime(time.Second)()
	const endless = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
		SELECT i AS fid, NULL AS "the ""geom""" FROM n`
	for name, view := range map[string]struct{ sql, want string }{
		"of rows":    {endless, ""},
		"of no rows": {endless + " WHERE i < 0", "takes too long"},
	} {
		file := geoPackage(t, 4326, map[string][]byte{"a": nil})
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("DROP TABLE a; CREATE VIEW a AS " + view.sql); errors.Join(err, db.Close()) != nil {
			t.Fatal(err)
		}
		if _, err := areaOf(t, file, nil); cli.ExitCode(err) != cli.ExitUsage ||
			!strings.Contains(cli.Explain(err), view.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shape with many holes in many polygons is given up after a while; holes that are far from most polygons are found
// quickly.
func TestArea_ShapefileOfManyRings(t *testing.T) {
	rings := func(n int, west func(int) float64) (all [][][2]float64) {
		for i := range n {
			all = append(all, ring(west(i), 50, 1, true), ring(west(i)+0.25, 50.25, 0.5, false))
		}
		return all
	}
	tight := shapefile(5, rings(20_000, func(int) float64 { return 4 }))
	file := zipped(t, map[string][]byte{"a.shp": tight})
	restore := cli.SetAreaTime(time.Second)
	if _, err := areaOf(t, file, nil); cli.ExitCode(err) != cli.ExitUsage ||
		!strings.Contains(cli.Explain(err), "takes too long") {
		t.Errorf("all in one place: %v", err)
	}
	restore()
	wide := shapefile(5, rings(5_000, func(i int) float64 { return float64(i)/30 - 90 }))
	sent, err := areaOf(t, zipped(t, map[string][]byte{"a.shp": wide}), nil)
	if strings.Count(sent, "]]],[[[") != 4_999 {
		t.Errorf("side by side: %v, %d bytes", err, len(sent))
	}
}

func TestArea_FromAGeoPackage(t *testing.T) {
	square := blob(ring(4, 50, 1, false))
	got, err := areaOf(t, geoPackage(t, 4326, map[string][]byte{"it's a layer": square}), nil)
	if got != `{"type":"Polygon","coordinates":[[[4,50],[5,50],[5,51],[4,51],[4,50]]]}` {
		t.Errorf("%v: %s", err, got)
	}
	extension := bytes.Clone(square)
	extension[3] |= 0x20
	for name, row := range map[string]struct {
		system int
		layers map[string][]byte
		want   string
	}{
		"another system": {3035, map[string][]byte{"a": square}, "its reference system is EPSG:3035; convert it"},
		"two layers":     {4326, map[string][]byte{"a": square, "b": square}, "has 2 layers of features (a, b)"},
		"no layer":       {4326, nil, "has 0 layers"},
		"no geometry":    {4326, map[string][]byte{"a": nil}, "has no polygon"},
		"torn":           {4326, map[string][]byte{"a": square[:20]}, "damaged"},
		"torn inside":    {4326, map[string][]byte{"a": square[:60]}, "cannot be read"},
		"many rings":     {4326, map[string][]byte{"a": wkb(1, 3, 0, 0, 0, 255, 255, 255, 255)}, "cannot be read"},
		"many points":    {4326, map[string][]byte{"a": wkb(0, 0, 0, 0, 2, 255, 255, 255, 255)}, "cannot be read"},
		"many polygons":  {4326, map[string][]byte{"a": wkb(1, 6, 0, 0, 0, 255, 255, 255, 255)}, "cannot be read"},
		"deep": {4326, map[string][]byte{"a": wkb(bytes.Repeat([]byte{1, 7, 0, 0, 0, 1, 0, 0, 0}, 1_000_000)...)},
			"cannot be read"},
		"extension": {4326, map[string][]byte{"a": extension}, "an extension of GeoPackage"},
		"a point": {4326, map[string][]byte{"a": wkb(append([]byte{1, 1, 0, 0, 0}, make([]byte, 16)...)...)},
			`a "Point" is not an area`},
	} {
		if _, err := areaOf(t, geoPackage(t, row.system, row.layers), nil); cli.ExitCode(err) != cli.ExitUsage ||
			!strings.Contains(cli.Explain(err), row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// world is two squares with a border in common, a country across the antimeridian, and one around the pole.
const world = `{"transform":{"scale":[0.5,1],"translate":[-180,-90]},
	"arcs":[[[370,140],[0,1]],[[370,141],[-2,0],[0,-1],[2,0]],[[370,140],[2,0],[0,1],[-2,0]],
		[[718,100],[-716,0],[0,1],[716,0],[0,-1]],[[0,0],[240,10],[240,0],[200,0],[-680,-10]]],
	"objects":{"countries":{"geometries":[
		{"type":"Polygon","arcs":[[0,1]],"properties":{"name":"Westland"}},
		{"type":"MultiPolygon","arcs":[[[2,-1]]],"properties":{"name":"Östland"}},
		{"type":"Polygon","arcs":[[3]],"properties":{"name":"Fiji"}},
		{"type":"Polygon","arcs":[[4]],"properties":{"name":"Antarctica"}}]}}}`

// TestArea_SaysWhereABoxIs, because its numbers are easily given in another order.
func TestArea_SaysWhereABoxIs(t *testing.T) {
	environ := stub(t, map[string]string{"POST /tiles": `{"geometries":[],"ids":[]}`})
	for box, want := range map[string]string{"4.2,50.2,4.4,50.4": "in Westland.",
		"50.2,4.2,50.4,4.4": "in no country"} {
		shown := &bytes.Buffer{}
		console := cli.Console{Out: io.Discard, Err: shown, Environ: environ,
			Outlines: func() []byte { return []byte(world) }}
		if err := executeWith(t, console, "tiles", box, "--grid", "20x20km"); err != nil ||
			!strings.Contains(shown.String(), want) {
			t.Errorf("%s: %v: %s", box, err, shown)
		}
	}
}

func TestArea_OfACountry(t *testing.T) {
	t.Chdir(t.TempDir())
	outlines := func() []byte { return []byte(world) }
	for name, want := range map[string]string{
		"westland":  `{"type":"Polygon","coordinates":[[[5,50],[5,51],[4,51],[4,50],[5,50]]]}`,
		" Ostland ": `{"type":"Polygon","coordinates":[[[5,50],[6,50],[6,51],[5,51],[5,50]]]}`,
		"FIJI":      `{"type":"Polygon","coordinates":[[[179,10],[181,10],[181,11],[179,11],[179,10]]]}`,
	} {
		if got, err := areaOf(t, name, outlines); got != want {
			t.Errorf("%s: %v: %s", name, err, got)
		}
	}
	for name, want := range map[string]string{"Antarctica": "surrounds a pole", "Westphalia": "Did you mean: Westland",
		"Atlantis": "nor the name of a country (as in", "no/file": "no such file"} {
		if _, err := areaOf(t, name, outlines); cli.ExitCode(err) != cli.ExitUsage ||
			!strings.Contains(cli.Explain(err), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := areaOf(t, "Westland", nil); !strings.Contains(cli.Explain(err), "built without the page") {
		t.Error(err)
	}
}
