package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// judges name for each command of docs/installation.md and docs/operations.md outside the section that
// TestOperations_WalkThrough runs, by how it begins, the test that runs it or, where it needs what CI lacks (a cluster
// of Kubernetes, a registry, systemd as the first process), the test that judges it instead.
var judges = map[string]string{
	"eodispatch backup":           "test/crashes/TestBackup_UnderLoad",
	"eodispatch doctor":           "deploy/TestOperations_WalkThrough",
	"eodispatch export":           "test/program/TestForget_LeavesNothing",
	"eodispatch forget":           "test/program/TestForget_RefusesLiveJobs",
	"eodispatch health":           "deploy/TestImage_Runs",
	"eodispatch import":           "test/real/TestImport_FromMariaDB",
	"eodispatch operator":         "test/program/TestOperator_HoldsReleasesAndEnds",
	"eodispatch purge":            "test/program/TestPurge_DryRunAndReal",
	"eodispatch restored":         "deploy/TestOperations_WalkThrough",
	"eodispatch serve":            "deploy/TestOperations_WalkThrough",
	"cd /var/lib/eodispatch":      "deploy/TestService_CommandsHaveItsFolder",
	"EODISPATCH_TRACES_ENDPOINT=": "test/program/TestTraces_OfAJob",
	"go tool pprof":               "observe/telemetry/TestPrivateListener_ServesProfiles", // the profile is read
	// the chart is rendered with the values, and the program started
	"helm -n eo upgrade": "deploy/TestChart_StartsTheProgram",
	// and deploy/TestChart_StartsTheProgram starts what the pods run
	"kubectl":                           "deploy/TestOperations_NamesWhatTheChartHas",
	"make charts":                       "test/charts/TestChart_OfACluster",
	"make image":                        "deploy/TestImage_Runs",
	"pg_dump":                           "deploy/TestOperations_WalkThrough",
	"pg_restore":                        "deploy/TestOperations_WalkThrough",
	"printf '%s' 'ISSUER SUB'":          "test/program/TestForget_LeavesNothing",
	"skopeo copy oci:dist/image docker": "deploy/TestImage_Runs", // to another folder instead of a registry
	"systemctl reload":                  "deploy/TestService_ReloadsByHangup",
	"systemd-analyze security":          "deploy/TestService_IsValidAndHardened",
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	indented = regexp.MustCompile(`(?m)^    (\S.*)$`)
	quoted   = regexp.MustCompile(
		"`((?:kubectl|helm|skopeo|go|eodispatch|pg_dump|pg_restore|psql|printf|systemctl|systemd-analyze|promtool|" +
			"docker) [^`\n]+|make (?:image|release|charts)[^`\n]*)`")
)

// TestOperations_EachCommandIsJudged: each command that the pages show is run by a test, or one judges it.
func TestOperations_EachCommandIsJudged(t *testing.T) {
	before, _, found := strings.Cut(string(read(t, "../docs/installation.md")), walkThrough)
	if !found {
		t.Fatal("docs/installation.md has no walk-through")
	}
	shown := strings.ReplaceAll(before+string(read(t, "../docs/operations.md")), "\\\n", "")
	shown = fenced.ReplaceAllString(shown, "")
	used := map[string]bool{}
	for _, pattern := range []*regexp.Regexp{indented, quoted} {
		for _, m := range pattern.FindAllStringSubmatch(shown, -1) {
			judged := false
			for begin := range judges {
				if strings.HasPrefix(m[1], begin) {
					judged, used[begin] = true, true
				}
			}
			if !judged {
				t.Errorf("no test runs or judges: %s", m[1])
			}
		}
	}
	for begin, judge := range judges {
		folder, name := filepath.Split(judge)
		if !used[begin] {
			t.Errorf("no page has %s", begin)
		}
		if !isTest(filepath.Join("..", folder), name) {
			t.Errorf("%s: there is no %s", begin, judge)
		}
	}
}

// TestOperations_NamesWhatTheChartHas: the deployment and the secret of the commands for Kubernetes are those of the
// chart.
func TestOperations_NamesWhatTheChartHas(t *testing.T) {
	text, chart := string(read(t, "../docs/installation.md")), string(read(t, "testdata/chart.yaml"))
	for form, pattern := range map[string]string{
		"\nkind: Deployment\nmetadata:\n  name: %s\n": `deployment/([\w-]+)`,
		"secretRef: {name: %q}":                       `create secret generic ([\w-]+)`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("the document has no %s", pattern)
		}
		for _, m := range found {
			if want := fmt.Sprintf(form, m[1]); !strings.Contains(chart, want) {
				t.Errorf("the chart has no %q", want)
			}
		}
	}
}

// isTest reports whether a folder has a test of that name.
func isTest(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go")) // of a good pattern
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "\nfunc "+name+"(t ") {
			return true
		}
	}
	return false
}
