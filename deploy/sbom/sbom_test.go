package sbom_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/deploy/sbom"
)

// TestOf_ListsWhatIsInTheProgram describes this test's own binary, whose modules go test does not record, and a page.
func TestOf_ListsWhatIsInTheProgram(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "package-lock.json")
	if err := os.WriteFile(lock,
		[]byte(
			`{"packages": {"": {"name": "page"}, "node_modules/ol": {"version": "10.11.0", "license": "BSD-2-Clause"},
		"node_modules/ol/node_modules/@a/b": {"version": "1.0.0", "license": "(MIT OR GPL-2.0)"}, "node_modules/vite": {"version": "9.9.9", "dev": true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	created := time.Unix(1_700_000_000, 0)
	text, err := sbom.Of(program, "1.2.3", lock, created)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sbom.Of(program, "1.2.3", lock, created); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same program is described in another way: %v", err)
	}
	var got struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct{ Component struct{ Version string } }
		Components                           []struct {
			Purl     string
			Licenses []json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.BOMFormat != "CycloneDX" || got.Metadata.Component.Version != "1.2.3" ||
		!strings.HasPrefix(got.SerialNumber, "urn:uuid:") {
		t.Errorf("%+v", got)
	}
	licences := map[string]int{}
	for _, c := range got.Components {
		licences[c.Purl] = len(c.Licenses)
	}
	for purl, n := range map[string]int{"pkg:npm/ol@10.11.0": 1, "pkg:npm/%40a/b@1.0.0": 0} {
		if got, found := licences[purl]; !found || got != n {
			t.Errorf("%s has %d licences, found: %v", purl, got, found)
		}
	}
	if _, found := licences["pkg:npm/vite@9.9.9"]; found {
		t.Error("a tool that builds the page is listed")
	}
	if !strings.Contains(string(text), `"pkg:golang/stdlib@`) {
		t.Error("Go's own library is missing")
	}
}
