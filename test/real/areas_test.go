package real

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client/cli"
)

// areaSent returns the area that the command tiles sends to the broker.
func areaSent(t *testing.T, file string) (json.RawMessage, error) {
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
	root := &cobra.Command{Use: "eodispatch", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(cli.Groups...)
	root.AddCommand(cli.Commands(cli.Console{Out: io.Discard, Err: io.Discard, Signals: context.WithCancel,
		Environ: []string{"EODISPATCH_BROKER=" + broker.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}},
		"0")...)
	root.SetArgs([]string{"tiles", file, "--grid", "20x20km"})
	err := root.ExecuteContext(t.Context())
	return sent.AOI, err
}

// TestAreas_InFilesOfGDAL reads GeoPackages and shapefiles that GDAL has written, with holes, islands in them, and
// several features.
func TestAreas_InFilesOfGDAL(t *testing.T) {
	const donut = `{"type":"MultiPolygon","coordinates":[[[[4,50],[8,50],[8,54],[4,54],[4,50]],[[5,51],[5,53],[7,53],[7,51],[5,51]],[[4,50],[4.2,50.9],[4.9,50.2],[4,50]]],
		[[[5.5,51.5],[6.5,51.5],[6.5,52.5],[5.5,52.5],[5.5,51.5]],[[5.8,51.8],[5.8,52.2],[6.2,52.2],[6.2,51.8],[5.8,51.8]]]]}`
	const other = `{"type":"MultiPolygon","coordinates":[[[[10,50],[11,50],[11,51],[10,50]]]]}`
	const metres = `{"type":"MultiPolygon","coordinates":[[[[4000000,3000000],[4100000,3000000],[4100000,3100000],[4000000,3000000]]]]}`
	type file struct {
		System int               `json:"system"`
		Layer  []json.RawMessage `json:"layer"`
	}
	both := []json.RawMessage{json.RawMessage(donut), json.RawMessage(other)}
	files := map[string]file{"area.gpkg": {4326, both}, "area.zip": {4326, both},
		"metres.gpkg": {3035, []json.RawMessage{json.RawMessage(metres)}}, "metres.zip": {3035,
			[]json.RawMessage{json.RawMessage(metres)}}}
	folder := t.TempDir()
	var none struct{}
	judge(t, "openeo-driver", "areas.py", files, &none, "write", folder)
	compared := map[string][2]any{}
	for name, f := range files {
		got, err := areaSent(t, filepath.Join(folder, name))
		if f.System == 4326 && err == nil {
			compared[name] = [2]any{f.Layer, got}
		} else if f.System == 4326 || err == nil || !strings.Contains(err.Error(), "ogr2ogr -t_srs EPSG:4326") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var differences map[string]float64
	judge(t, "openeo-driver", "areas.py", compared, &differences, "compare")
	for name := range compared {
		if d, found := differences[name]; !found || d > 1e-9 {
			t.Errorf("%s differs by %v square degrees", name, d)
		}
	}
}
