package simulator

import (
	"strings"
	"testing"
)

// TestInputs_AreDescribed: inputs of the processes that the demonstration offers have titles and descriptions for
// people.
func TestInputs_AreDescribed(t *testing.T) {
	for _, process := range []string{"ndvi", "statistics", "image"} {
		for name, described := range ogcProcesses[process].describeInputs("marker") {
			input := described.(object)
			about, _ := input["description"].(string)
			if input["title"] == name || !strings.HasSuffix(about, ".") || strings.Contains(about, "oracle") {
				t.Errorf("%s, %s: %v, %q", process, name, input["title"], about)
			}
		}
	}
}
