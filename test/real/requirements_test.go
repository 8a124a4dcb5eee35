package real

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinned matches a requirement as lock.sh writes it: one version and at least one hash.
var pinned = regexp.MustCompile(`^[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+( ; [^\\]+)?( \\\s+--hash=sha256:[0-9a-f]{64})+$`)

func TestRequirements_ArePinnedByHash(t *testing.T) {
	asked, err := filepath.Glob("requirements/*.in")
	if err != nil || len(asked) == 0 {
		t.Fatalf("requirements: %v, %v", asked, err)
	}
	for _, file := range asked {
		text, err := os.ReadFile(strings.TrimSuffix(file, ".in") + ".txt")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), "\\\n", "\\")), "\n") {
			if !pinned.MatchString(line) {
				t.Errorf("%s: %.80s: not pinned to one version with hashes", file, line)
			}
		}
	}
}

func TestRequirements_HashesAreChecked(t *testing.T) {
	script, err := os.ReadFile("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(script), "\n") {
		if strings.Contains(line, "pip install") && !strings.Contains(line, `"${locked[@]}"`) {
			t.Errorf("install.sh installs without hashes: %s", line)
		}
	}
	if !strings.Contains(string(script), "locked=(--quiet --disable-pip-version-check --require-hashes ") {
		t.Error("install.sh does not require hashes")
	}
}
