package charts_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// deployedValues are values of an installation of the APEx Dispatch API, with what it has switched off by default
// switched on.
const deployedValues = `
image: {repository: registry.example.org/eodispatch, tag: local}
contour: {virtualhost: {fqdn: dispatch.example.org, tls: {secretName: tls}}}
keycloak: {host: auth.example.org, realm: apex}
app: {environment: production, corsAllowedOrigins: "https://portal.example.org"}
externalSecret: {enabled: false}
secrets:
  create: true
  keycloakClientId: api
  keycloakClientSecret: secret
  backends: '{"https://openeo.example.org": {"auth_method": "USER_CREDENTIALS", "token_provider": "cdse", "token_prefix": "oidc/CDSE"}}'
  databaseUrl: sqlite:///dispatch.db
migration: {enabled: true}
probes: {enabled: true}
`

// object is what this test reads of Kubernetes' and Knative's objects.
type object struct {
	Kind       string
	Data       map[string]string
	StringData map[string]string
	Spec       struct {
		Template struct{ Spec corev1.PodSpec }
	}
}

// TestDeployedChart_RunsTheProgram renders the chart of the APEx Dispatch API, and runs the program with exactly the
// variables, the port, the probes and the command of its migration that come out, and with what Knative adds.
func TestDeployedChart_RunsTheProgram(t *testing.T) {
	standards := os.Getenv("EODISPATCH_STANDARDS")
	if standards == "" {
		t.Skip("EODISPATCH_STANDARDS names no folder with deployed-chart")
	}
	files, err := render(filepath.Join(standards, "deployed-chart", "charts"), "apex", parse(t, deployedValues))
	if err != nil {
		t.Fatal(err)
	}
	given, service, job := map[string]string{}, corev1.Container{}, corev1.Container{}
	for _, text := range objects(files) {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		for _, all := range []map[string]string{o.Data, o.StringData} {
			for name, value := range all {
				given[name] = value
			}
		}
		if containers := o.Spec.Template.Spec.Containers; o.Kind == "Job" {
			job = containers[0]
		} else if len(containers) > 0 {
			service = containers[0]
		}
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "eodispatch")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program,
		"./cmd/eodispatch").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Symlink(program, filepath.Join(folder, job.Command[0])); err != nil { // as in the image
		t.Fatal(err)
	}
	for _, want := range []string{"was migrated from schema 0 to schema", "is up to date"} {
		migrate := exec.Command(filepath.Join(folder, job.Command[0]), append(job.Command[1:], job.Args...)...)
		migrate.Dir, migrate.Env = folder, variables(t, job, given)
		if out, err := migrate.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	port := service.Ports[0].ContainerPort
	serve := exec.Command(program, append([]string{"serve"}, service.Args...)...)
	serve.Dir = folder
	// of the image
	serve.Env = append([]string{"EODISPATCH_DEFAULT_LISTEN=0.0.0.0:8080"}, variables(t, service, given)...)
	serve.Env = append(serve.Env, "K_SERVICE=apex", "K_REVISION=apex-00001", "K_CONFIGURATION=apex",
		fmt.Sprintf("PORT=%d", port))
	var log strings.Builder
	serve.Stdout, serve.Stderr = &log, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, probe := range []*corev1.Probe{service.ReadinessProbe, service.LivenessProbe} {
		if err := answers(ctx, ended, fmt.Sprintf("http://127.0.0.1:%v%s", probe.HTTPGet.Port.IntValue(),
			probe.HTTPGet.Path)); err != nil {
			_ = serve.Process.Kill() // fails if it has ended
			t.Fatalf("%v\n%s", err, &log)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
	if !strings.Contains(log.String(), fmt.Sprintf(":%d", port)) || strings.Contains(log.String(), "127.0.0.1:9090") {
		t.Errorf("the log:\n%s", &log)
	}
}

// variables returns the environment of a container, with the entries of the chart's secrets and maps.
func variables(t *testing.T, c corev1.Container, given map[string]string) (all []string) {
	t.Helper()
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = given[e.ValueFrom.SecretKeyRef.Key]
		}
		all = append(all, e.Name+"="+value)
	}
	if len(c.EnvFrom) > 0 { // the only map
		for _, name := range []string{"APP_NAME", "APP_DESCRIPTION", "APP_ENV", "APP_VERSION", "CORS_ALLOWED_ORIGINS",
			"KEYCLOAK_HOST", "KEYCLOAK_REALM"} {
			if _, ok := given[name]; !ok {
				t.Errorf("the chart has no %s", name)
			}
			all = append(all, name+"="+given[name])
		}
	}
	return all
}

// answers asks until the probe succeeds.
func answers(ctx context.Context, ended <-chan error, probe string) error {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close() // its status is all that a probe reads
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("it has ended: %v", err)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", probe, ctx.Err())
		case <-tick.C:
		}
	}
}
