package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/cli"
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
	root := &cobra.Command{Use: "eodispatch", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(cli.Groups...)
	root.AddCommand(cli.Commands(cli.Console{Out: out, Err: out, Environ: environ, Signals: context.WithCancel}, "0")...)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A name of a broker is no address: after a sign-out, and if the stored sign-in is damaged, the user is told the URL to sign in at.
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
	want := "you are not signed in at " + broker + ". Run: eodispatch login " + broker
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
		"projected":   {utm, "no position in degrees"},
		"inside":      {`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":` + utm + `}]}`, "no position in degrees"},
		"short":       {`{"type":"Polygon","coordinates":[[[5]]]}`, "no position in degrees"},
		"empty":       {`{"type":"Polygon"}`, "has no polygon"},
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
	if said := command(t, environ, "tiles", "--grid", "20x20km", "--", "-5,40,-4,41"); !strings.Contains(said, "not signed in") && !strings.Contains(said, "cannot reach") {
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
	answer("/upscale_tasks/7", func() string { return `{"id":7,"status":"` + status + `","counts":{"` + status + `":2}}` })
	answer("/upscale_tasks/7/results", func() string { return `{"type":"Collection","links":[]}` })
	answer("/upscale_tasks/7/results/items", func() string { return `{"type":"FeatureCollection","features":[],"links":[]}` })
	broker := httptest.NewServer(answers)
	t.Cleanup(broker.Close)
	environ := []string{"EODISPATCH_BROKER=" + broker.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	folder := t.TempDir()
	said, err := execute(t, environ, "download", "task-7", "--to", folder, "--json")
	if cli.ExitCode(err) != cli.ExitRunning || !strings.Contains(said, `"complete":false`) {
		t.Errorf("running: %v, %s", err, said)
	}
	status = "finished"
	if said, err = execute(t, environ, "download", "task-7", "--to", folder, "--json"); err != nil || !strings.Contains(said, `"complete":true`) {
		t.Errorf("finished: %v, %s", err, said)
	}
}

// The area is the same for all values of another dimension, as in the help of upscale.
func TestRequest_TakesAnAreaBesideTheValuesOfAnotherParameter(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"s","protocol":"openeo","parameters":[{"name":"where","type":"bounding-box"},{"name":"when","type":"date-interval"}]}`)
	}))
	t.Cleanup(broker.Close)
	environ := []string{"EODISPATCH_BROKER=" + broker.URL, "EODISPATCH_TOKEN=x", "XDG_STATE_HOME=" + t.TempDir()}
	dates := write(t, filepath.Join(t.TempDir(), "dates.txt"), `["2024-06-01","2024-06-10"]`+"\n"+`["2024-07-01","2024-07-10"]`)
	printed, err := execute(t, environ, "request", "s", "--values", dates, "--dimension", "when", "--area", "4,50,5,51")
	if err != nil || !strings.Contains(printed, `"west": 4`) {
		t.Errorf("%v: %s", err, printed)
	}
	if said := command(t, environ, "request", "s", "--values", dates, "--area", "4,50,5,51"); !strings.Contains(said, "--values gives the areas") {
		t.Error(said)
	}
}
