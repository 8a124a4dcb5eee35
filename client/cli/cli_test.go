package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client/cli"
	"github.com/eodispatch/eodispatch/client/wire"
)

// command runs a command and returns its error as it is shown.
func command(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	_, err := execute(t, environ, args...)
	if err == nil {
		err = errors.New("no error")
	}
	return cli.Explain(err)
}

// execute runs a command and returns its error and what it printed.
func execute(t *testing.T, environ []string, args ...string) (printed string, err error) {
	t.Helper()
	out := &bytes.Buffer{}
	err = executeWith(t, cli.Console{Out: out, Err: out, Environ: environ}, args...)
	return out.String(), err
}

func executeWith(t *testing.T, c cli.Console, args ...string) error {
	t.Helper()
	c.Signals = context.WithCancel
	root := &cobra.Command{Use: "eodispatch", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(cli.Groups...)
	root.AddCommand(cli.Commands(c, "0")...)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	cli.SetUsage(root)
	root.SetArgs(args)
	return root.ExecuteContext(t.Context())
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A name of a broker is no address: after a sign-out, and if the stored sign-in is damaged, the user sees the URL to
// sign in at.
func TestCommands_NameTheURLOfALostSignIn(t *testing.T) {
	const broker = "http://127.0.0.1:1"
	state := t.TempDir()
	environ := []string{"XDG_STATE_HOME=" + state}
	folder := filepath.Join(state, "eodispatch")
	file := filepath.Join(folder, "production.json")
	current := write(t, filepath.Join(folder, "current"), "production\n"+broker+"\n")
	write(t, file, `{"name":"production","url":"`+broker+`"}`)
	if said := command(t, environ, "logout"); said != "no error" {
		t.Fatal(said)
	}
	want := "you are not signed in to " + broker + ". Run: eodispatch login " + broker
	if said := command(t, environ, "list"); said != want {
		t.Errorf("after a sign-out: %s", said)
	}
	write(t, file, "damaged")
	if said := command(t, environ, "list"); said != want {
		t.Errorf("with a damaged file: %s", said)
	}
	write(t, file, `{"name":"production","url":"http://127.0.0.1:2"}`)
	write(t, current, "production\n")
	if said := command(t, environ, "list"); !strings.Contains(said, "http://127.0.0.1:2") {
		t.Errorf("with a name alone: %s", said)
	}
}

func TestTiles_RefusesWhatIsNoArea(t *testing.T) {
	folder := t.TempDir()
	utm := `{"type":"Polygon","coordinates":[[[500000,5600000],[510000,5600000],[510000,5610000],[500000,5600000]]]}`
	for name, c := range map[string]struct{ text, want string }{
		"projected": {utm, "not a position in degrees"},
		"inside": {`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":` + utm + `}]}`,
			"not a position in degrees"},
		"short":       {`{"type":"Polygon","coordinates":[[[5]]]}`, "not lists of positions"},
		"empty":       {`{"type":"Polygon","coordinates":[]}`, "has no polygon"},
		"without any": {`{"type":"MultiPolygon","coordinates":[]}`, "has no polygon"},
		"no features": {`{"type":"FeatureCollection","features":[]}`, "has no polygon"},
	} {
		file := write(t, filepath.Join(folder, name+".geojson"), c.text)
		if said := command(t, nil, "tiles", file, "--grid", "20x20km"); !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

func TestTiles_SaysHowToWriteABoxInTheWest(t *testing.T) {
	if said := command(t, nil, "tiles", "-5,40,-4,41", "--grid", "20x20km"); !strings.Contains(said, "-- -5,40,-4,41") {
		t.Error(said)
	}
	environ := []string{"EODISPATCH_BROKER=http://127.0.0.1:1", "XDG_STATE_HOME=" + t.TempDir()}
	if said := command(t, environ, "tiles", "--grid", "20x20km", "--", "-5,40,-4,41"); !strings.Contains(said,
		"not signed in") && !strings.Contains(said, "cannot reach") {
		t.Error(said)
	}
}

// A script that downloads a task before its end must not take the results for all of them.
func TestDownload_OfARunningTaskIsNotComplete(t *testing.T) {
	status := "running"
	answers := http.NewServeMux()
	answer := func(path string, text func() string) {
		answers.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text())
		})
	}
	answer("/upscale_tasks/7", func() string {
		return `{"id":7,"status":"` + status + `","counts":{"` + status + `":2}}`
	})
	answer("/upscale_tasks/7/results", func() string { return `{"type":"Collection","links":[]}` })
	answer("/upscale_tasks/7/results/items",
		func() string { return `{"type":"FeatureCollection","features":[],"links":[]}` })
	broker := httptest.NewServer(answers)
	t.Cleanup(broker.Close)
	environ := []string{"EODISPATCH_BROKER=" + broker.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	folder := t.TempDir()
	said, err := execute(t, environ, "download", "task-7", "--to", folder, "--json")
	if cli.ExitCode(err) != cli.ExitRunning || !strings.Contains(said, `"complete":false`) {
		t.Errorf("running: %v, %s", err, said)
	}
	status = "finished"
	if said, err = execute(t, environ, "download", "task-7", "--to", folder, "--json"); err != nil ||
		!strings.Contains(said, `"complete":true`) {
		t.Errorf("finished: %v, %s", err, said)
	}
}

// The area is the same for all values of another dimension, as in the help of upscale.
func TestRequest_TakesAnAreaBesideTheValuesOfAnotherParameter(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w,
			`{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"bounding-box"},{"name":"when","type":"date-interval"}]}`)
	}))
	t.Cleanup(broker.Close)
	environ := []string{"EODISPATCH_BROKER=" + broker.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	dates := write(t, filepath.Join(t.TempDir(), "dates.txt"), `["2024-06-01","2024-06-10"]`+"\n"+
		`["2024-07-01","2024-07-10"]`)
	printed, err := execute(t, environ, "request", "s", "--values", dates, "--dimension", "when", "--area", "4,50,5,51")
	if err != nil || !strings.Contains(printed, `"west": 4`) {
		t.Errorf("%v: %s", err, printed)
	}
	features := filepath.Join(t.TempDir(), "features.json") // ids that cannot be names are left out
	point := `"geometry":{"type":"Point","coordinates":[5,51]}}`
	text := `{"features":[{"id":"31UFS",` + point + `,{"id":12,` + point + `,{` + point + `,{"id":"two\nlines",` +
		point + `,{"id":"31U\u200bFS",` + point + `,{"id":"` + strings.Repeat("x", 101) + `",` + point + `]}`
	if err := os.WriteFile(features, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	printed, err = execute(t, environ, "request", "s", "--values", features, "--dimension", "where")
	var named struct{ Dimension struct{ Names []string } }
	if err != nil || json.Unmarshal([]byte(printed), &named) != nil ||
		!slices.Equal(named.Dimension.Names, []string{"31UFS", "12", "", "", "", ""}) {
		t.Errorf("%v: %s", err, printed)
	}
	if said := command(t, environ, "request", "s", "--values", dates, "--area", "4,50,5,51"); !strings.Contains(said,
		"--values gives the areas") {
		t.Error(said)
	}
}

// The parts of --time are a dimension, and so are the tiles beside them.
func TestRequest_SplitsTime(t *testing.T) {
	environ := stub(t, map[string]string{
		"GET " +
			"/services/s": `{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"bounding-box"},{"name":"when","type":"date-interval"}]}`,
		"POST " +
			"/tiles": `{"type":"GeometryCollection","geometries":[{"type":"Polygon","coordinates":[]},{"type":"Polygon","coordinates":[]}],"ids":["a","b"]}`,
	})
	year := []string{"request", "s", "--time", "2024-01-01/2025-01-01", "--split", "month", "--area", "4,50,5,51"}
	var made wire.UpscalingTaskRequest
	printed, err := execute(t, environ, year...)
	if err != nil || json.Unmarshal([]byte(printed), &made) != nil || made.Dimension.Name != "when" ||
		made.Dimension.Split != "month" ||
		!slices.Equal(made.Dimension.Interval, []string{"2024-01-01", "2025-01-01"}) ||
		!strings.Contains(printed, `"west": 4`) || strings.Contains(printed, "null") {
		t.Errorf("%v: %s", err, printed)
	}
	printed, err = execute(t, environ, append(year, "--grid", "20x20km")...)
	if err != nil || json.Unmarshal([]byte(printed), &made) != nil || len(made.Dimensions) != 2 ||
		made.Dimensions[0].Name != "where" ||
		len(made.Dimensions[0].Values) != 2 || made.Dimensions[1].Split != "month" {
		t.Errorf("%v: %s", err, printed)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"request", "s", "--split", "month"}, "--split needs --time: \"\" is not a time span: write FROM/TO"},
		{[]string{"request", "s", "--split", "month", "--time", "soon"},
			"--split needs --time: \"soon\" is not a time span: write FROM/TO"},
		{[]string{"request", "s", "--split", "month", "--time", "2024-01/2024-04"}, "write both days"},
		{[]string{"request", "s", "--time", "2023/2024"}, "write both days"},
		{[]string{"request", "s", "-p", "when=2024-01-01/2024-04"}, "write both days"},
		{append(year, "-p", "when=2024-01-01/2024-02-01"),
			"no parameter of the type date-interval, or it has a value already"},
	} {
		if said := command(t, environ, c.args...); !strings.Contains(said, c.says) {
			t.Errorf("%v: %s", c.args, said)
		}
	}
}

// Who gives other shapes to a service that takes boxes learns how much more is processed.
func TestRequest_SaysThatBoxesAreSent(t *testing.T) {
	triangle := `{"type":"Polygon","coordinates":[[[4,50],[5,50],[4,51],[4,50]]]}`
	square := `{"type":"Polygon","coordinates":[[[5,50],[6,50],[6,51],[5,51],[5,50]]]}`
	hole :=
		`{"type":"Polygon","coordinates":[[[6,50],[7,50],[7,51],[6,51],[6,50]],[[6,50],[6.5,50],[6.5,50.5],[6,50]]]}`
	tiles := func(all ...string) string {
		return `{"type":"GeometryCollection","geometries":[` + strings.Join(all, ",") + `]}`
	}
	for _, c := range []struct{ kind, area, grid, tiles, says string }{
		{"bounding-box", "4,50,7,51", "h3-5", tiles(triangle, square),
			"bounding boxes of 1 of 2 areas are sent, so that 33 % more"},
		{"bounding-box", "4,50,7,51", "h3-5", tiles(hole),
			"a box: the bounding box of the area is sent, which is 14 % larger"},
		{"bounding-box", triangle, "", "", "which is 100 % larger"},
		{"bounding-box", "4,50,7,51", "20x20km", tiles(square), ""},
		{"bounding-box", square, "", "", ""},
		{"polygon", "4,50,7,51", "h3-5", tiles(triangle, square), ""},
		{"polygon", triangle, "", "", ""},
	} {
		environ := stub(t, map[string]string{"POST /tiles": c.tiles,
			"GET /services/s": `{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"` + c.kind +
				`"}]}`})
		if c.area[0] == '{' {
			c.area = write(t, filepath.Join(t.TempDir(), "area.geojson"), c.area)
		}
		args := []string{"request", "s", "--area", c.area}
		if c.grid != "" {
			args = append(args, "--grid", c.grid)
		}
		printed, err := execute(t, environ, args...)
		if err != nil || !strings.Contains(printed, c.says) ||
			strings.Contains(printed, "where takes") != (c.says != "") {
			t.Errorf("%+v: %v\n%s", c, err, printed)
		}
	}
}

// A day, a month or a year is a time span, except for a service that takes a time.
func TestRequest_TakesADayForATimeSpan(t *testing.T) {
	environ := stub(t, map[string]string{
		"GET /services/span": `{"id":"span","protocol":"openeo","parameters":[{"name":"when","type":"date-interval"}]}`,
		"GET " +
			"/services/both": `{"id":"both","protocol":"openeo","parameters":[{"name":"when","type":"datetime"},{"name":"span","type":"date-interval","optional":true}]}`,
	})
	day, when := `["2024-06-01","2024-06-02"]`, `"2024-06-01"`
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"span", "--time", "2024-06-01"}, `{"when":` + day + `}`},
		{[]string{"span", "--time", "2024-12-31"}, `{"when":["2024-12-31","2025-01-01"]}`},
		{[]string{"span", "--time", "2024-02"}, `{"when":["2024-02-01","2024-03-01"]}`},
		{[]string{"span", "--time", "2024"}, `{"when":["2024-01-01","2025-01-01"]}`},
		{[]string{"span", "-p", "when=2024-06-01"}, `{"when":` + day + `}`},
		{[]string{"both", "--time", "2024-06-01"}, `{"when":` + when + `}`},
		{[]string{"both", "-p", "when=2024-06-01", "--time", "2024-06-01/2024-06-02"},
			`{"when":` + when + `,"span":` + day + `}`},
	} {
		var made wire.BaseJobRequest
		printed, err := execute(t, environ, append([]string{"request"}, c.args...)...)
		if err != nil || json.Unmarshal([]byte(printed), &made) != nil || !sameJSON(t, made.Parameters, c.want) {
			t.Errorf("%v: %v: %s", c.args, err, printed)
		}
	}
	for _, text := range []string{"2024-06-01T00:00:00Z", "2024-13", "June"} {
		if said := command(t, environ, "request", "span", "--time", text); !strings.Contains(said,
			"write FROM/TO, such as 2024-06-01/2024-07-01, or a day, month or year") {
			t.Errorf("%s: %s", text, said)
		}
	}
}

// An area across the antimeridian is sent as it is to a service that takes boxes: a box around its parts would go
// around the globe.
func TestRequest_AreaAcrossTheAntimeridian(t *testing.T) {
	environ := stub(t, map[string]string{"GET " +
		"/services/s": `{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"bounding-box"}]}`})
	folder := t.TempDir()
	file := func(name, coordinates string) string {
		return write(t, filepath.Join(folder, name+".geojson"), `{"type":"Polygon","coordinates":[`+coordinates+`]}`)
	}
	for name, c := range map[string]struct{ area, want string }{
		"box": {"170,-20,-170,-10",
			`{"type":"MultiPolygon","coordinates":[[[[170,-20],[180,-20],[180,-10],[170,-10],[170,-20]]],[[[-180,-20],[-170,-20],[-170,-10],[-180,-10],[-180,-20]]]]}`},
		"beyond": {file("beyond", `[[170,0],[190,0],[190,1],[170,0]]`),
			`{"type":"Polygon","coordinates":[[[170,0],[190,0],[190,1],[170,0]]]}`},
		"uncut": {file("uncut", `[[179,0],[-179,0],[-179,1],[179,1],[179,0]]`),
			`{"type":"Polygon","coordinates":[[[179,0],[-179,0],[-179,1],[179,1],[179,0]]]}`},
		"wide":      {"-100,0,100,1", `{"west":-100,"south":0,"east":100,"north":1}`},
		"the globe": {"-180,-90,180,90", `{"west":-180,"south":-90,"east":180,"north":90}`},
		"the east":  {"170,0,180,1", `{"west":170,"south":0,"east":180,"north":1}`},
	} {
		var made struct {
			Parameters struct{ Where json.RawMessage }
		}
		printed, err := execute(t, environ, "request", "s", "--area", c.area)
		if err != nil || json.Unmarshal([]byte(printed), &made) != nil || !sameJSON(t, made.Parameters.Where, c.want) {
			t.Errorf("%s: %v: %s", name, err, printed)
		}
	}
	if said := command(t, environ, "request", "s", "--area", "5.15,51.2,5.05,51.25"); !strings.Contains(said,
		"Across the antimeridian, west > east, and the box is at most 180 degrees wide") {
		t.Error(said)
	}
}

// sameJSON reports whether two texts have the same value.
func sameJSON(t *testing.T, a []byte, b string) bool {
	t.Helper()
	var is, wanted any
	if err := errors.Join(json.Unmarshal(a, &is), json.Unmarshal([]byte(b), &wanted)); err != nil {
		t.Error(err)
	}
	return reflect.DeepEqual(is, wanted)
}

// stub is a broker that answers each path with JSON, and all others with 404.
func stub(t *testing.T, answers map[string]string) (environ []string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.Method+" "+r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !known {
			w.WriteHeader(http.StatusNotFound)
			text = `{"error_code":"SERVICE_NOT_FOUND","message":"GET /services lists them."}`
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	return []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
}

func TestDeleteAndCancel_PrintJSON(t *testing.T) {
	environ := stub(t, map[string]string{"DELETE /unit_jobs/4": `null`, "DELETE /upscale_tasks/7": `null`,
		"POST /upscale_tasks/7/cancel": `{"id":7,"status":"canceled"}`})
	printed, err := execute(t, environ, "delete", "job-4", "task-7", "--json", "--quiet")
	if want := `{"id":"job-4","message_type":"deleted"}` + "\n" + `{"id":"task-7","message_type":"deleted"}` +
		"\n"; err != nil || printed != want {
		t.Errorf("delete: %v: %s", err, printed)
	}
	printed, err = execute(t, environ, "cancel", "task-7", "--json", "--quiet")
	if err != nil || !strings.HasPrefix(printed, `{"id":7,`) || strings.Count(printed, "\n") != 1 {
		t.Errorf("cancel: %v: %s", err, printed)
	}
}

func TestRequest_NamesServicesOfSeveralPlatforms(t *testing.T) {
	environ := stub(t, map[string]string{"GET " +
		"/services/s": `{"id":"s","protocol":"openeo","parameters":[{"name":"when","type":"date-interval"}]}`})
	printed, err := execute(t, environ, "request", "s", "--time", "2024-01-01/2024-03-01", "--split", "month", "--also",
		"t", "--also", "u")
	var made struct {
		Service  *wire.ServiceChoice
		Services []wire.ServiceChoice
	}
	if err = errors.Join(err, json.Unmarshal([]byte(printed), &made)); err != nil || made.Service != nil ||
		!slices.Equal(made.Services, []wire.ServiceChoice{{ID: "s"}, {ID: "t"}, {ID: "u"}}) {
		t.Errorf("%v: %s", err, printed)
	}
	if said := command(t, environ, "request", "s", "--time", "2024-01-01/2024-03-01", "--also",
		"t"); !strings.Contains(said, "--also is for tasks") {
		t.Error(said)
	}
}

// TestRequest_LeavesThePlatformOpen: of a service that several platforms offer the request names the id alone, or with
// one of them.
func TestRequest_LeavesThePlatformOpen(t *testing.T) {
	const parameters = `"parameters":[{"name":"when","type":"date-interval"}]`
	environ := stub(t, map[string]string{"GET " +
		"/services/s": `{"id":"s","platform":"a","protocol":"openeo","homes":[{"platform":"a","label":"openeo"},{"platform":"b","label":"ogc_api_process"}],` + parameters + `}`,
		"POST /params": `[{"name":"when","type":"date-interval"}]`})
	for _, at := range []string{"", "b"} {
		printed, err := execute(t, environ, "request", "s", "--time", "2024-01-01/2024-03-01", "--split", "month",
			"--at", at)
		var made struct {
			Label   string
			Service wire.ServiceChoice
		}
		if err = errors.Join(err, json.Unmarshal([]byte(printed), &made)); err != nil || made.Label != "" ||
			made.Service != (wire.ServiceChoice{ID: "s", Platform: at}) {
			t.Errorf("%q: %v: %s", at, err, printed)
		}
	}
	if said, err := execute(t, environ, "service", "s"); err != nil || !strings.Contains(said, "s, at a, b\n") {
		t.Errorf("%v: %s", err, said)
	}
}

func TestShow_ByPlatform(t *testing.T) {
	environ := stub(t,
		map[string]string{"GET /upscale_tasks/7/platforms": `{"platforms":[{"platform":"a","service":{},"counts":{"finished":3,"running":1},"per_hour":12.5},` +
			`{"platform":"b","service":{},"counts":{},"per_hour":0,"notice":"Link your account.","link":"https://broker.example/account"},` +
			`{"platform":"c","service":{},"counts":{"created":2},"per_hour":0,"state":"unreachable","last_answer":"2026-11-25T10:00:00Z","failure":"connection refused"},` +
			`{"platform":"d","service":{},"counts":{},"per_hour":0,"state":"sign_in_required","attention":{"code":"sign_in_required","message":"Sign in again."},"link":"https://broker.example/away"}]}`})
	since := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC).Local().Format(time.DateTime + " MST")
	printed, err := execute(t, environ, "show", "task-7", "--by", "platform")
	if err != nil || !strings.Contains(printed, "a         1 running, 3 finished  12.5      -\n") ||
		!strings.Contains(printed, "Link your account. https://broker.example/account") ||
		!strings.Contains(printed, "2 created              0         unreachable since "+since+": connection "+
			"refused\n") ||
		!strings.Contains(printed, "sign in required: Sign in again. https://broker.example/away\n") {
		t.Errorf("%v: %s", err, printed)
	}
}

func TestShow_PlatformsOfATask(t *testing.T) {
	environ := stub(t, map[string]string{"GET " +
		"/upscale_tasks/7": `{"id":7,"status":"running","homes":[{"platform":"a","service":{}},{"platform":"b","service":{},"unused":"You may not."}]}`})
	if printed, err := execute(t, environ, "show", "task-7"); err != nil ||
		!strings.Contains(printed, "platforms  a, b (not used: You may not)\n") {
		t.Errorf("%v: %s", err, printed)
	}
}

func TestProvenance_IsPrinted(t *testing.T) {
	environ := stub(t,
		map[string]string{"GET /unit_jobs/42/provenance": `{"activity":{"broker:unit_jobs/42":{"prov:label":"a"}}}`,
			"GET /upscale_tasks/7/provenance": `{"activity":{"broker:upscale_tasks/7":{"prov:label":"b"}}}`})
	if printed, err := execute(t, environ, "provenance", "job-42"); err != nil ||
		printed != `{"activity":{"broker:unit_jobs/42":{"prov:label":"a"}}}`+"\n" {
		t.Errorf("%v: %q", err, printed)
	}
	if printed, err := execute(t, environ, "provenance", "task-7"); err != nil ||
		printed != `{"activity":{"broker:upscale_tasks/7":{"prov:label":"b"}}}`+"\n" {
		t.Errorf("%v: %q", err, printed)
	}
	if _, err := execute(t, environ, "provenance", "job-43"); err == nil {
		t.Error("the provenance of no job was printed")
	}
}

func TestRequest_RefusesATimeSpanThatEndsBeforeItBegins(t *testing.T) {
	environ := stub(t, map[string]string{"GET " +
		"/services/s": `{"id":"s","protocol":"openeo","parameters":[{"name":"when","type":"date-interval"}]}`})
	for span, refused := range map[string]bool{"2024-07-01/2024-06-01": true, "2024-06-01T10:00:00Z/2024-06-01": true,
		"2024-06-01/2024-06-01": false, "../2024-06-01": false, "2024-06-01/..": false,
		"2024-06-01T10:00:00Z/2024-06-01T12:00:00+01:00": false, "summer/spring": false} {
		_, err := execute(t, environ, "request", "s", "--time", span)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "ends before it begins") {
			t.Errorf("%s: %v", span, err)
		}
	}
	if said := command(t, environ, "run", "nosuch"); !strings.Contains(said, "eodispatch services") {
		t.Error(said)
	}
}

// A retry of a task without failed jobs says that it did nothing.
func TestRetry_SaysThatNothingFailed(t *testing.T) {
	for answer, idle := range map[string]bool{
		`{"id":7,"status":"finished","counts":{"finished":3,"canceled":39}}`: true,
		`{"id":7,"status":"running","counts":{"finished":3,"created":1}}`:    false} {
		printed, err := execute(t, stub(t, map[string]string{"POST /upscale_tasks/7/retry": answer}), "retry", "task-7")
		if err != nil || strings.Contains(printed, "Nothing is submitted: none of these jobs has failed.") != idle {
			t.Errorf("%s: %v: %s", answer, err, printed)
		}
	}
}

// Two downloads to one folder would write to the same parts.
func TestDownload_LeavesAFolderToAnother(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked) // by the first download only
		<-release
		fmt.Fprint(w, "content")
	}))
	t.Cleanup(files.Close)
	environ := stub(t, map[string]string{"GET /unit_jobs/4/results": `{"type":"Collection","assets":{"a":{"href":"` +
		files.URL + `/a.tif"}}}`})
	folder := t.TempDir()
	first := make(chan error)
	go func() {
		_, err := execute(t, environ, "download", "job-4", "--to", folder)
		first <- err
	}()
	<-asked
	if said := command(t, environ, "download", "job-4", "--to", folder); !strings.Contains(said,
		"another process downloads to "+folder+". Wait for its end, or choose another folder") {
		t.Error(said)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if printed, err := execute(t, environ, "download", "job-4", "--to", folder); err != nil ||
		!strings.Contains(printed, "1 skipped") {
		t.Error(printed, err)
	}
}

// A task whose rest waits for its owner ends the wait when none of its jobs runs any more, with an exit code of its
// own. One that somebody paused, or that needs a sign-in, is waited for, which is said.
func TestWait_EndsWhereTheOwnerDecides(t *testing.T) {
	message := func(status, attention, counts string) string {
		return fmt.Sprintf(
			`{"type":"status","data":{"id":7,"status":"running","paused":true,"attention":{"code":"%s","message":"Because of %[1]s."},"counts":{%s},"jobs":[{"id":8,"status":"%s"}]}}`, attention, counts, status)
	}
	var messages []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for _, m := range messages {
			_ = socket.Write(r.Context(), websocket.MessageText, []byte(m))
		}
		_, _, _ = socket.Read(r.Context()) // ends with the client
	}))
	t.Cleanup(server.Close)
	environ := []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	for code, says := range map[string]string{"trial_ended": "eodispatch resume task-7; ",
		"budget_reached":  "eodispatch resume task-7 --budget AMOUNT; ",
		"budget_unusable": "eodispatch resume task-7 --budget none; "} {
		missing := strings.Replace(message("running", "sign_in_required", `"running":1,"created":3`), `required."`,
			`required.","link":"https://b.example.org/away"`, 1)
		messages = []string{missing, message("running", "paused", `"running":1,"created":3`),
			message("running", code, `"running":1,"created":3`), message("finished", code, `"finished":3,"created":1`)}
		// two of three jobs that show the status created are being submitted
		messages = slices.Insert(messages, 3, strings.Replace(message("created", code, `"created":3,"finished":1`),
			`"counts"`, `"rest":{"jobs":1},"counts"`, 1))
		for _, verb := range []string{"wait", "watch"} {
			printed, err := execute(t, environ, verb, "task-7")
			if text := cli.Explain(err); cli.ExitCode(err) != cli.ExitPaused || !strings.Contains(text, says) ||
				!strings.Contains(text, "1 created, 3 finished") {
				t.Errorf("%s, %s: exit %d: %v", verb, code, cli.ExitCode(err), err)
			}
			for _, line := range []string{"task-7: Because of sign_in_required. https://b.example.org/away\n",
				"task-7: Because of paused.\n", "task-7: Because of " + code + ".\n"} {
				if strings.Count(printed, line) != 1 {
					t.Errorf("%s: not once %q in:\n%s", verb, line, printed)
				}
			}
		}
	}
}

// The broker answers the first requests for the results of a job as a proxy does while it restarts, which is longer
// than a single request is repeated. The stream and the download go on.
func TestDownload_FollowsThroughAnOutage(t *testing.T) {
	var refused atomic.Int64
	var mux http.ServeMux
	server := httptest.NewServer(&mux)
	t.Cleanup(server.Close)
	answer := func(path, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		})
	}
	mux.HandleFunc("GET /ws/upscale_tasks/7", func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_ = socket.Write(r.Context(), websocket.MessageText, []byte(
			`{"type":"status","data":{"id":7,"status":"finished","counts":{"finished":1},"jobs":[{"id":8,"status":"finished"}]}}`))
		_, _, _ = socket.Read(r.Context()) // ends with the client
	})
	mux.HandleFunc("GET /upscale_tasks/7/results/items/8", func(w http.ResponseWriter, _ *http.Request) {
		if refused.Add(1) < 4 {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"8","assets":{"a":{"href":"%s/a.tif"}}}`, server.URL)
	})
	answer("/upscale_tasks/7/results", `{"type":"Collection","links":[]}`)
	answer("/a.tif", "content")
	environ := []string{"EODISPATCH_BROKER=" + server.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	printed, err := execute(t, environ, "download", "task-7", "--to", t.TempDir(), "--follow")
	if err != nil || !strings.Contains(printed, "1 file downloaded") {
		t.Errorf("%v\n%s", err, printed)
	}
}

// Values of further parameters are dimensions, too, as a product or zipped.
func TestRequest_HasADimensionForEach(t *testing.T) {
	environ := stub(t, map[string]string{
		"GET " +
			"/services/s": `{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"bounding-box"},{"name":"cloud","type":"double"},{"name":"band","type":"string"}]}`,
	})
	made := func(args ...string) (d wire.UpscalingTaskRequest) {
		t.Helper()
		printed, err := execute(t, environ, append([]string{"request", "s", "--area", "4,50,5,51"}, args...)...)
		if err != nil || json.Unmarshal([]byte(printed), &d) != nil {
			t.Fatalf("%v: %s", err, printed)
		}
		return d
	}
	if d := made("--each", "cloud=10, 30"); d.Dimension.Name != "cloud" ||
		fmt.Sprintf("%s", d.Dimension.Values) != "[10 30]" {
		t.Errorf("%+v", d)
	}
	d := made("--each", "cloud=10,30", "--each", `band=["B04","7"]`, "--zip")
	if len(d.Dimensions) != 2 || d.Combine != "zip" || fmt.Sprintf("%s", d.Dimensions[1].Values) != `["B04" "7"]` {
		t.Errorf("%+v", d)
	}
	if d := made("--each", "band=B04,7"); fmt.Sprintf("%s", d.Dimension.Values) != `["B04" "7"]` {
		t.Errorf("%+v", d)
	}
	for says, args := range map[string][]string{
		"write NAME=VALUE,VALUE": {"--each", "cloud"}, "it has: where, cloud, band": {"--each", "clouds=1"},
		"--zip needs several": {"--each", "cloud=1,2", "--zip"},
	} {
		if said := command(t, environ, append([]string{"request", "s", "--area", "4,50,5,51"},
			args...)...); !strings.Contains(said, says) {
			t.Errorf("%v: %s", args, said)
		}
	}
}

func TestShow_ByDimension(t *testing.T) {
	environ := stub(t, map[string]string{
		"GET /upscale_tasks/7/dimensions": `{"dimensions":[{"name":"where","values":[{"status":"running","counts":{"running":1},"progress":10,"jobs":[1,2]}]},
			{"name":"when","values":[{"value":["2024-01-01","2024-02-01"],"status":"finished","counts":{"finished":1},"progress":100,"jobs":[1]},
			{"value":["2024-02-01","2024-03-01"],"status":"failed","counts":{"failed":1},"progress":100,"jobs":[2]}]}]}`,
		"GET " +
			"/upscale_tasks/7": `{"id":7,"jobs":[{"id":1,"title":"one","status":"finished"},{"id":2,"title":"two","status":"failed"}]}`,
	})
	printed, err := execute(t, environ, "show", "task-7", "--by", "when")
	if err != nil || !strings.Contains(printed, `["2024-02-01","2024-03-01"]`) ||
		!strings.Contains(printed, "1 failed") || strings.Contains(printed, "where") {
		t.Errorf("%v: %s", err, printed)
	}
	if printed, err = execute(t, environ, "show", "task-7", "--by", "all"); err != nil ||
		!strings.Contains(printed, "(value 1)") {
		t.Errorf("%v: %s", err, printed)
	}
	for _, text := range []string{"when=2024-02-01/2024-03-01", `when=["2024-02-01", "2024-03-01"]`} {
		if printed, err = execute(t, environ, "list", "--task", "task-7", "--where", text); err != nil ||
			!strings.Contains(printed, "job-2") || strings.Contains(printed, "job-1") {
			t.Errorf("%s: %v: %s", text, err, printed)
		}
	}
	twice := stub(t, map[string]string{
		"GET /upscale_tasks/7/dimensions": `{"dimensions":[{"name":"where","values":[{"name":"a","jobs":[1]},{"name":"a","jobs":[2]},{"name":"b","jobs":[3]}]}]}`,
		"GET " +
			"/upscale_tasks/7": `{"id":7,"jobs":[{"id":1,"title":"one"},{"id":2,"title":"two"},{"id":3,"title":"three"}]}`,
	})
	if printed, err = execute(t, twice, "list", "--task", "task-7", "--where", "where=a"); err != nil ||
		!strings.Contains(printed, "job-1") || !strings.Contains(printed, "job-2") ||
		strings.Contains(printed, "job-3") {
		t.Errorf("two values of one name: %v: %s", err, printed)
	}
	for says, args := range map[string][]string{
		"it has: where, when":   {"show", "task-7", "--by", "who"},
		"tasks have dimensions": {"show", "job-1", "--by", "when"},
		"no job has this value": {"list", "--task", "task-7", "--where", "when=2023"}, "--where needs --task": {"list",
			"--where", "when=2023"},
	} {
		if said := command(t, environ, args...); !strings.Contains(said, says) {
			t.Errorf("%v: %s", args, said)
		}
	}
}

func TestTiles_RefusesWhatIsNoNumber(t *testing.T) {
	environ := []string{"EODISPATCH_BROKER=http://127.0.0.1:1", "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	for _, flag := range []string{"--min-area=NaN", "--buffer=Inf"} {
		if said := command(t, environ, "tiles", "4,40,5,41", "--grid", "20x20km", flag); !strings.Contains(said,
			flag[:strings.Index(flag, "=")]+": not a finite number") {
			t.Errorf("%s: %s", flag, said)
		}
	}
}
