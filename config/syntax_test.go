package config

import (
	"strings"
	"testing"
)

// A file that is not YAML is reported with its lines: every line that is indented with a tab, or else the one that the
// parser names.
func TestLoad_ReportsLinesOfSyntaxErrors(t *testing.T) {
	const tab = ": the line is indented with a tab, which YAML does not allow: use spaces"
	for text, want := range map[string]string{
		"identity:\n  issuer: x\n\tclient_id: a\n\taudience: b\n": "x.yaml:3" + tab + "\nx.yaml:4" + tab,
		"a:\n\tb: 1\n":                "x.yaml:2" + tab,
		"a: 1\n  \tb: 2\n":            "x.yaml:2" + tab,
		"-\ta: 1":                     "x.yaml:1: this is not YAML: found character that cannot start any token",
		"a: b: c\n":                   "x.yaml:1: this is not YAML: mapping values are not allowed in this context",
		"a: |\n  x\n  \ty\nb: c: d\n": "x.yaml:4: this is not YAML: mapping values are not allowed in this context",
		"a: 1\n---\nb: 2\n": "x.yaml: the file must hold a single YAML document; remove everything after " +
			"\"---\"",
		"identity: [1,\n\t2]\nb: [\n":   "x.yaml:", // the tab is allowed there, the bracket is open
		"identity: {issuer: x}\nb: @\n": "x.yaml:2: this is not YAML: found character that cannot start any token",
	} {
		_, err := load("x.yaml", []byte(text), nil)
		if err == nil || err.Error() != want && !(want == "x.yaml:" &&
			strings.Contains(err.Error(), "this is not YAML")) {
			t.Errorf("%q is reported as\n%v, not\n%s", text, err, want)
		}
	}
}

// All missing keys are reported at once with other faults.
func TestLoad_ReportsEverythingThatIsMissingAtOnce(t *testing.T) {
	_, err := load("", nil, nil)
	for _, key := range []string{"identity.issuer: ", "identity.audience: ", "platforms: "} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not reported in:\n%v", key, err)
		}
	}
	_, err = load("x.yaml", []byte("platforms: 7\n"), nil)
	if strings.Count(err.Error(), "platforms") != 1 {
		t.Errorf("the platforms are reported twice:\n%v", err)
	}
	_, err = load("", nil, []string{"BACKENDS=["})
	if strings.Contains(err.Error(), "no platform is configured") {
		t.Errorf("the platforms are reported twice:\n%v", err)
	}
}
