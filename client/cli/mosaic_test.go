package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/client/cli"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// tiff returns a GeoTIFF of a simulated platform, as a data address.
func tiff(t *testing.T, process, bbox string) string {
	t.Helper()
	server := httptest.NewServer(&simulator.OGC{})
	defer server.Close()
	r, err := http.Post(server.URL+"/processes/"+process+"/execution", "application/json",
		strings.NewReader(`{"inputs": {"bbox": {"bbox": `+bbox+`}}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v: %.200s", r.StatusCode, err, text)
	}
	return "data:image/tiff;base64," + base64.StdEncoding.EncodeToString(text)
}

// TestDownload_WritesAnIndexAndMosaics: items.json has all Items of a task, which refer to the files from the folder,
// and --vrt adds a mosaic for each time.
func TestDownload_WritesAnIndexAndMosaics(t *testing.T) {
	item := func(job int, name, start, href string) string {
		return fmt.Sprintf(`{"type":"Feature","id":"%d","geometry":null,
			"properties":{"name":%q,"start_datetime":"%sT00:00:00Z"},
			"assets":{"openEO.tif":{"href":%q,"type":"image/tiff; application=geotiff"}},"links":[]}`, job, name,
			start, href)
	}
	west, east := tiff(t, "image", "[5, 51, 5.02, 51.01]"), tiff(t, "image", "[5.02, 51, 5.03, 51.01]")
	all := strings.Join([]string{item(1, "west", "2024-06-01", west), item(2, "east", "2024-06-01", east),
		item(3, "west", "2024-07-01", west), item(4, "odd", "2024-07-01", "data:image/tiff,none")}, ",")
	environ := stub(t, map[string]string{
		"GET /upscale_tasks/7":               `{"id":7,"status":"finished","counts":{"finished":4}}`,
		"GET /upscale_tasks/7/results":       `{"type":"Collection","links":[]}`,
		"GET /upscale_tasks/7/results/items": `{"features":[` + all + `],"eodispatch:missing":[],"links":[]}`})
	folder := t.TempDir()
	if printed, err := execute(t, environ, "download", "task-7", "-o", folder, "--vrt"); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	var index struct {
		Type     string
		Features []struct {
			Properties map[string]any
			Assets     map[string]struct{ Href string }
			Links      []struct{ Rel, Href string }
		}
	}
	text, _ := os.ReadFile(filepath.Join(folder, "items.json"))
	if err := json.Unmarshal(text, &index); err != nil || index.Type != "FeatureCollection" ||
		len(index.Features) != 4 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, f := range index.Features {
		if _, err := os.Stat(filepath.Join(folder, f.Assets["openEO.tif"].Href)); err != nil {
			t.Error(err)
		}
		self := filepath.Join(folder, path.Dir(f.Links[0].Href)) // to which readers of STAC take the others as relative
		if _, err := os.Stat(filepath.Join(self, f.Assets["openEO.tif"].Href)); err != nil {
			t.Error(err)
		}
		for _, l := range f.Links {
			if _, err := os.Stat(filepath.Join(self, l.Href)); err != nil {
				t.Errorf("%s: %v", l.Rel, err)
			}
		}
	}
	var june struct {
		Width  int    `xml:"rasterXSize,attr"`
		Height int    `xml:"rasterYSize,attr"`
		SRS    string `xml:"SRS"`
		Place  string `xml:"GeoTransform"`
		Bands  []struct {
			Kind    string   `xml:"dataType,attr"`
			Name    string   `xml:"Description"`
			Nodata  string   `xml:"NoDataValue"`
			Sources []string `xml:"ComplexSource>SourceFilename"`
		} `xml:"VRTRasterBand"`
	}
	text, _ = os.ReadFile(filepath.Join(folder, "mosaic_2024-06-01.vrt"))
	if err := xml.Unmarshal(text, &june); err != nil || june.Width != 30 || june.Height != 10 ||
		june.SRS != "EPSG:4326" || len(june.Bands) != 3 || june.Bands[0].Name != "NDVI" ||
		june.Bands[2].Kind != "Float32" || june.Bands[0].Nodata != "nan" ||
		!slices.Equal(june.Bands[0].Sources, []string{"1/openEO.tif", "2/openEO.tif"}) ||
		!strings.HasPrefix(june.Place, "5, 0.001, 0, 51.0") {
		t.Errorf("%v: %s", err, text)
	}
	if !strings.Contains(string(text), `<DstRect xOff="20" yOff="0" xSize="10" ySize="10">`) {
		t.Errorf("the tile in the east is elsewhere: %s", text)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "mosaic_2024-07-01.vrt")); err != nil ||
		strings.Contains(string(text), "4/openEO.tif") || !strings.Contains(string(text), "3/openEO.tif") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestDownload_KeepsFilesWithNamesOfItsOwn: a platform's file that is named as a mosaic or an Item gets another name.
func TestDownload_KeepsFilesWithNamesOfItsOwn(t *testing.T) {
	item := `{"type":"Feature","id":"1","geometry":null,"properties":{},"links":[],"assets":{
		"mosaic.vrt":{"href":"data:application/xml,own"},"Mosaic_2.VRT":{"href":"data:application/xml,other"},"1.json":{"href":"data:application/json,1"},
		"a.tif":{"href":"` + tiff(t, "image", "[5, 51, 5.02, 51.01]") + `","type":"image/tiff"}}}`
	environ := stub(t, map[string]string{
		"GET /upscale_tasks/7":               `{"id":7,"status":"finished","counts":{"finished":1}}`,
		"GET /upscale_tasks/7/results":       `{"type":"Collection","links":[]}`,
		"GET /upscale_tasks/7/results/items": `{"features":[` + item + `],"eodispatch:missing":[],"links":[]}`})
	folder := t.TempDir()
	for _, layout := range []string{"{file}", "items/{file}"} {
		if printed, err := execute(t, environ, "download", "task-7", "-o", folder, "--vrt", "--layout",
			layout); err != nil {
			t.Fatalf("%v: %s", err, printed)
		}
	}
	for name, want := range map[string]string{"_mosaic.vrt": "own", "_Mosaic_2.VRT": "other", "mosaic.vrt": "a.tif",
		"items/mosaic.vrt": "own", "_items/1.json": "1", "items/1.json": "Feature"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestDownload_GoesToAFolderOfTheId if no folder is named.
func TestDownload_GoesToAFolderOfTheId(t *testing.T) {
	environ := stub(t, map[string]string{
		"GET /unit_jobs/4/results": `{"type":"Collection","assets":{"a":{"href":"data:,1"}},"links":[]}`})
	t.Chdir(t.TempDir())
	if printed, err := execute(t, environ, "download", "job-4"); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	if _, err := os.Stat("job-4/a.txt"); err != nil {
		t.Error(err)
	}
}

// TestResults_Links are printed alone.
func TestResults_Links(t *testing.T) {
	environ := stub(t, map[string]string{"GET /unit_jobs/4/results": `{"type":"Collection","assets":{
		"b":{"href":"https://p.example/b?x=1"},"a":{"href":"https://p.example/a"}},"links":[]}`})
	printed, err := execute(t, environ, "results", "job-4", "--links")
	if want := "https://p.example/a\nhttps://p.example/b?x=1\n"; err != nil || printed != want {
		t.Errorf("%v: %s", err, printed)
	}
}

// TestServices_SaysThatNoneMatches, and prints no table without rows.
func TestServices_SaysThatNoneMatches(t *testing.T) {
	environ := stub(t, map[string]string{"GET /services": `{"services":[],"total":0}`})
	printed, err := execute(t, environ, "services", "zzz")
	if err != nil || strings.Contains(printed, "TITLE") || !strings.Contains(printed, "No services found") {
		t.Errorf("%v: %s", err, printed)
	}
}

// TestGrids_AreWholeInAPipe: only on a terminal are long texts cut.
func TestGrids_AreWholeInAPipe(t *testing.T) {
	long := strings.Repeat("long ", 40) + "end"
	environ := stub(t, map[string]string{"GET /grids": `[{"name":"20x20km","description":"` + long + `"}]`})
	if printed, err := execute(t, environ, "grids"); err != nil || !strings.Contains(printed, long) {
		t.Errorf("%v: %s", err, printed)
	}
}

// TestErrors_AreSaidOnce, though a broker names them by their places, too.
func TestErrors_AreSaidOnce(t *testing.T) {
	const fault = "The value of the parameter \"max\" is not valid: maximum: got 200, want 100."
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		text, _ := json.Marshal(map[string]any{"error_code": "VALIDATION_ERROR", "message": fault,
			"details": map[string]any{"errors": []any{map[string]any{"loc": []any{"body"}, "msg": fault}}}})
		w.Write(text)
	}))
	defer server.Close()
	environ := []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	_, err := execute(t, environ, "show", "job-4")
	if text := cli.Explain(err); strings.Count(text, "got 200") != 1 || strings.Contains(text, "  :") {
		t.Error(text)
	}
}
