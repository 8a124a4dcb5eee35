package real

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// judge runs a program from judges/ in a Python environment. The program reads the JSON of in from standard input, and
// its output is decoded into out.
func judge(t testing.TB, venv, program string, in, out any, args ...string) {
	t.Helper()
	input, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("judges", program))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(environment(t, venv), "bin", "python"),
		append([]string{script}, args...)...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &said
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	answer, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, tail(said.Bytes(), 2000))
	}
	if err := json.Unmarshal(answer, out); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, tail(answer, 2000))
	}
}

// stacFaults validates STAC objects with the schemas of their version, and returns the faults by the names of the
// objects.
func stacFaults(t *testing.T, objects map[string]json.RawMessage) map[string][]string {
	t.Helper()
	byVersion := map[string]map[string]json.RawMessage{"1.0.0": {}, "1.1.0": {}}
	faults := map[string][]string{}
	for name, raw := range objects {
		var o struct {
			Version string `json:"stac_version"`
		}
		if err := json.Unmarshal(raw, &o); err != nil || byVersion[o.Version] == nil {
			faults[name] = []string{"unexpected stac_version: " + o.Version}
			continue
		}
		byVersion[o.Version][name] = raw
	}
	for version, objects := range byVersion {
		var found struct {
			Version string
			Faults  map[string][]string
		}
		judge(t, "stac-"+version[:3], "stac.py", objects, &found)
		if found.Version != version {
			t.Fatalf("the schemas have version %s, want %s", found.Version, version)
		}
		for name, all := range found.Faults {
			faults[name] = all
		}
	}
	return faults
}

// provenanceFaults returns the faults of documents of PROV-JSON by their names.
func provenanceFaults(t *testing.T, documents map[string]json.RawMessage) (faults map[string][]string) {
	t.Helper()
	judge(t, "prov", "provenance.py", documents, &faults)
	return faults
}

// TestJudge_OfProvenance checks that provenanceFaults accepts a valid document and finds the faults of invalid ones.
func TestJudge_OfProvenance(t *testing.T) {
	const valid = `{"prefix":{"e":"https://e.example/"},"entity":{"e:x":{}},"activity":{"e:run":{"prov:startTime":"2026-01-01T00:00:00Z"}},"used":{"_:u":{"prov:activity":"e:run","prov:entity":"e:x"}}}`
	faults := provenanceFaults(t, map[string]json.RawMessage{
		"valid":     json.RawMessage(valid),
		"dangling":  bytes.Replace([]byte(valid), []byte(`"prov:entity":"e:x"`), []byte(`"prov:entity":"e:y"`), 1),
		"namespace": bytes.Replace([]byte(valid), []byte(`"e:x":{}`), []byte(`"f:x":{}`), 1),
		"time":      bytes.Replace([]byte(valid), []byte(`2026-01-01T`), []byte(`yesterday T`), 1),
		"empty":     json.RawMessage(`{}`),
	})
	if len(faults) != 4 || len(faults["valid"]) > 0 {
		t.Errorf("%q", faults)
	}
}

// TestJudge_OfSTAC checks that stacFaults accepts valid objects and finds the faults of invalid ones.
func TestJudge_OfSTAC(t *testing.T) {
	const valid = `{"type":"Collection","stac_version":"VERSION","id":"c","description":"d","license":"MIT","links":[],
		"extent":{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z",null]]}}}`
	objects := map[string]json.RawMessage{"other " +
		"version": json.RawMessage(`{"type":"Collection","stac_version":"0.9.0"}`)}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		good := bytes.ReplaceAll([]byte(valid), []byte("VERSION"), []byte(version))
		objects["valid "+version] = good
		objects["no licence "+version] = bytes.Replace(good, []byte(`"license"`), []byte(`"licence"`), 1)
		objects["box "+version] = bytes.Replace(good, []byte(`[4,51,5,52]`), []byte(`[4,51,5]`), 1)
		objects["asset "+version] = bytes.Replace(good, []byte(`"links"`),
			[]byte(`"assets":{"a":{"type":"x"}},"links"`), 1)
		objects["item "+version] = json.RawMessage(`{"type":"Feature","stac_version":"` + version +
			`","id":"i","geometry":null,"properties":{},"links":[],"assets":{}}`)
	}
	faults := stacFaults(t, objects)
	for name := range objects {
		if good := name[:5] == "valid"; good != (len(faults[name]) == 0) {
			t.Errorf("%s: %q", name, faults[name])
		}
	}
}
