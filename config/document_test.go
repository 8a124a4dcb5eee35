package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestReference_IsInTheDocument: docs/configuration.md has the tables of the keys as make generate writes them.
func TestReference_IsInTheDocument(t *testing.T) {
	document, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	WriteReference(&page)
	if !strings.Contains(string(document), "config.go. -->\n"+page.String()+"<!-- End -->\n") {
		t.Error("docs/configuration.md does not match the tags of the settings: run make generate")
	}
}
