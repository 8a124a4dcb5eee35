// Package charts_test renders charts by helm, which is compiled from its module: our own chart in deploy/chart, and
// that of the APEx Dispatch API. It is a module of its own, because the program needs nothing of Kubernetes. make
// charts runs it.
package charts_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write deploy/testdata/chart.yaml")

const (
	own      = "../../deploy/chart"
	rendered = "../../deploy/testdata/chart.yaml"
)

// render renders a chart with values, as helm does for a release of the name.
func render(folder, release string, values map[string]any) (map[string]string, error) {
	c, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ToRenderValues(c, values,
		chartutil.ReleaseOptions{Name: release, Namespace: "eo", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, given)
}

func parse(t *testing.T, text string) (values map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func cluster(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(own, "ci", "cluster-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// objects returns the documents of rendered templates, in the order of their names.
func objects(files map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			if strings.TrimSpace(document) != "" {
				all = append(all, strings.TrimSpace(document)+"\n")
			}
		}
	}
	return all
}

// kinds are the types of Kubernetes, which know all of their members. Those of the Prometheus operator are not among
// them.
var kinds = map[string]func() any{
	"Deployment":          func() any { return &appsv1.Deployment{} },
	"Job":                 func() any { return &batchv1.Job{} },
	"Service":             func() any { return &corev1.Service{} },
	"ConfigMap":           func() any { return &corev1.ConfigMap{} },
	"ServiceAccount":      func() any { return &corev1.ServiceAccount{} },
	"Ingress":             func() any { return &networkingv1.Ingress{} },
	"NetworkPolicy":       func() any { return &networkingv1.NetworkPolicy{} },
	"PodDisruptionBudget": func() any { return &policyv1.PodDisruptionBudget{} },
	"ServiceMonitor":      func() any { return &map[string]any{} },
	"PrometheusRule":      func() any { return &map[string]any{} },
}

// check decodes each object into its type and returns the number of objects of each kind.
func check(t *testing.T, all []string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, text := range all {
		kind, _ := parse(t, text)["kind"].(string)
		found[kind]++
		empty, known := kinds[kind]
		if !known {
			t.Errorf("kind %q", kind)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(text), empty()); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
	}
	return found
}

// TestChart_Lints: helm finds nothing to complain about, with the values of the chart as with those of a cluster.
func TestChart_Lints(t *testing.T) {
	for name, values := range map[string]map[string]any{"least": parse(t, least), "cluster": cluster(t)} {
		for _, m := range lint.All(own, values, "eo", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

const least = "{image: {repository: a}, replicas: 1, migration: {enabled: false}, volumes: [{name: data, " +
	"persistentVolumeClaim: {claimName: data}}], volumeMounts: [{name: data, mountPath: /data}]}"

// TestChart_OfACluster renders everything that the chart has. deploy/testdata/chart.yaml is the result, by which
// deploy/TestChart_StartsTheProgram starts the program in CI, where helm is not compiled.
func TestChart_OfACluster(t *testing.T) {
	files, err := render(own, "dispatch", cluster(t))
	if err != nil {
		t.Fatal(err)
	}
	all := objects(files)
	found := check(t, all)
	for kind := range kinds {
		if found[kind] == 0 {
			t.Errorf("no %s", kind)
		}
	}
	// promtool tests the rules
	all = slices.DeleteFunc(all, func(o string) bool { return strings.Contains(o, "\nkind: PrometheusRule\n") })
	text := fmt.Sprintf(
		"# Rendered from deploy/chart with ci/cluster-values.yaml by make charts. SHA-256 of the chart: %x\n---\n%s",
		sum(t), strings.Join(all, "---\n"))
	if *update {
		if err := os.WriteFile(rendered, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(rendered); err != nil || string(have) != text {
		t.Errorf("%s is not what the chart renders (%v): run make charts", rendered, err)
	}
}

// sum returns a hash of all files of the chart, without the alert rules, to which it has a link.
func sum(t *testing.T) []byte {
	t.Helper()
	var all bytes.Buffer
	err := fs.WalkDir(os.DirFS(own), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() { // the alert rules are a link
			return err
		}
		text, err := os.ReadFile(filepath.Join(own, path))
		fmt.Fprintf(&all, "%s %x\n", path, sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	total := sha256.Sum256(all.Bytes())
	return total[:]
}

// TestChart_OfOneProcess: with one process on a volume there is nothing to disrupt, no job that migrates, and never two
// processes.
func TestChart_OfOneProcess(t *testing.T) {
	files, err := render(own, "eodispatch", parse(t, least))
	if err != nil {
		t.Fatal(err)
	}
	all := objects(files)
	// with ConfigMap, Service and ServiceAccount
	if found := check(t, all); len(found) != 4 || found["Deployment"] != 1 {
		t.Errorf("%v", found)
	}
	if text := strings.Join(all, ""); !strings.Contains(text, "type: Recreate") ||
		!strings.Contains(text, "claimName: data") || strings.Contains(text, "maxSurge") {
		t.Error(text)
	}
}

// TestChart_OfLargeNumbers: numbers of values are floating, and a template prints those from a million on with an
// exponent, which Kubernetes refuses.
func TestChart_OfLargeNumbers(t *testing.T) {
	files, err := render(own, "eodispatch",
		parse(t, "{image: {repository: a}, migration: {activeDeadlineSeconds: 1000000}, "+
			"terminationGracePeriodSeconds: 2000000, config: {limits: {memory: 3000000000}}}"))
	if err != nil {
		t.Fatal(err)
	}
	all := objects(files)
	check(t, all)
	for _, want := range []string{"activeDeadlineSeconds: 1000000\n", "terminationGracePeriodSeconds: 2000000\n",
		"memory: 3000000000\n"} {
		if !strings.Contains(strings.Join(all, ""), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestChart_RefusesMistakes: the schema names the value that is wrong.
func TestChart_RefusesMistakes(t *testing.T) {
	for given, want := range map[string]string{
		"{}":                                    "image.repository is required",
		"{image: {repository: a, digest: abc}}": "digest",
		"{image: {repository: a}, replicas: 0}": "replicas",
		"{image: {repository: a}, replica: 3}":  "replica",
		"{image: {repository: a}, config: {listen: 0.0.0.0:1}}":                "listen",
		"{image: {repository: a}, config: {telemetry: {listen: off}}}":         "listen",
		"{image: {repository: a}, shutdownDelay: soon}":                        "shutdownDelay",
		"{image: {repository: a}, ingress: {enabled: true}}":                   "ingress.host is required",
		"{image: {repository: a}, networkPolicy: {enabled: true, client: []}}": "client",
	} {
		if _, err := render(own, "a", parse(t, given)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", given, err)
		}
	}
}
