package real

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/test/simulator"
)

var wholeSuite = flag.Bool("suite", false, "run all of openeo-test-suite, and schemathesis with thousands of requests")

// TestOpenEOFacade_Suites runs openeo-test-suite, and schemathesis with the standard's own document, against the openEO
// back-end of the program, with a simulated platform behind it. make standards runs all of both.
//
// What fails is expected: the suite wants 201 for synchronous processing, the standard 200; what a batch job costs is
// not known, for which the standard has an error of status 500; and documents that the platform publishes, in which
// neither program allows what the standard means: null as the end of a time, and {} as a schema.
func TestOpenEOFacade_Suites(t *testing.T) {
	standards := os.Getenv("EODISPATCH_STANDARDS")
	if standards == "" {
		t.Skip("EODISPATCH_STANDARDS does not name the folder of the standards")
	}
	environment(t, "openeo-suite")
	t.Parallel() // it mostly waits
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	broker := serveProcesses(t, w, fmt.Sprintf("\n- {name: sim, protocol: openeo, endpoint: %s, access: open}\n",
		w.OpenEOURL))
	var found struct {
		Passed, Operations int
		Failed, Skipped    []string
		Untried            []string
		Faults             map[string][]string
	}
	judge(t, "openeo-suite", "openeo_suite.py", map[string]any{"root": broker + "/openeo/sim/1.2/",
		"token": userToken(t, w), "standards": standards, "all": *wholeSuite}, &found)
	// GET_me reads the collections, too
	want := []string{"test_GET_collections", "test_GET_jobs_job_id_estimate", "test_GET_me", "test_GET_processes"}
	if *wholeSuite {
		want = append(want, "test_POST_result")
	}
	if diff := cmp.Diff(want, found.Failed); diff != "" || found.Passed < 33 {
		t.Errorf("%d tests passed; those that failed (want, got):\n%s", found.Passed, diff)
	}
	if len(found.Skipped) > 0 || len(found.Untried) > 0 {
		t.Errorf("skipped: %v; operations that were not tried: %v", found.Skipped, found.Untried)
	}
	for operation, texts := range found.Faults {
		for _, text := range texts {
			if operation != "GET /processes" || !strings.Contains(text, "oneOf") {
				t.Errorf("%s: %.2000s", operation, text)
			}
		}
	}
	if found.Operations < 25 {
		t.Errorf("%d operations were tried", found.Operations)
	}
}
