// Package deploy_test checks what operators take over: alert rules, a dashboard, and a compose file.
package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/test/installed"
)

// promtool runs Prometheus' own tool: the installed one, or the one that test/real/install.sh unpacks.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path := tool(t, "promtool", filepath.Join(cache(), "prometheus", "usr", "bin", "promtool"))
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// tool returns the path of a program of the system, or else of where test/real/install.sh unpacks it.
func tool(t *testing.T, name string, unpacked ...string) string {
	t.Helper()
	return installed.Program(t, name, unpacked...)
}

// cache returns the folder of what tests install.
func cache() string {
	if folder := os.Getenv("EODISPATCH_CACHE"); folder != "" {
		return folder
	}
	home, _ := os.UserHomeDir() // "" leads to a folder that does not exist
	return filepath.Join(home, ".cache", "eodispatch")
}

// TestAlerts_FireWhenTheyMust runs the tests of the rules.
func TestAlerts_FireWhenTheyMust(t *testing.T) {
	promtool(t, "check", "rules", "prometheus/alerts.yaml")
	promtool(t, "test", "rules", "prometheus/alerts_test.yaml")
}

// rule is one rule of a file of rules.
type rule struct {
	Alert  string `yaml:"alert,omitempty"`
	Record string `yaml:"record,omitempty"`
	Expr   string `yaml:"expr"`
}

// rules is a file of rules.
type rules struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var all rules
	if err := yaml.Unmarshal(read(t, "prometheus/alerts.yaml"), &all); err != nil {
		t.Fatal(err)
	}
	return all.Groups[0].Rules
}

// expressions returns the expressions of the dashboard's panels by their titles.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "grafana/eodispatch.json"), &board); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for i, p := range board.Panels {
		for _, target := range p.Targets {
			title := fmt.Sprintf("%d %s", i, p.Title)
			all[title] = append(all[title], strings.ReplaceAll(target.Expr, "$platform", ".*"))
		}
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDashboard_HasValidExpressions has promtool parse the expressions of all panels, as rules.
func TestDashboard_HasValidExpressions(t *testing.T) {
	g := group{Name: "panels"}
	for _, all := range expressions(t) {
		for _, e := range all {
			g.Rules = append(g.Rules, rule{Record: fmt.Sprintf("panel:%d", len(g.Rules)), Expr: e})
		}
	}
	if len(g.Rules) < 20 {
		t.Errorf("only %d expressions are found", len(g.Rules))
	}
	text, err := yaml.Marshal(rules{[]group{g}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

var (
	metric    = regexp.MustCompile(`\beodispatch_\w+`)
	described = regexp.MustCompile("`(eodispatch_\\w+)`")
	parts     = regexp.MustCompile(`_(bucket|sum|count)$`)
	section   = regexp.MustCompile(`(?m)^\| ` + "`(Eodispatch\\w+)`" + ` \|`)
)

// TestExpressions_UseMetricsThatExist: each metric in a rule or a panel is one of docs/operations.md, which a test of
// package telemetry compares with the program's.
func TestExpressions_UseMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, m := range described.FindAllStringSubmatch(string(read(t, "../docs/operations.md")), -1) {
		known[m[1]] = true
	}
	used := expressions(t)
	for _, a := range alerts(t) {
		used[a.Alert] = []string{a.Expr}
	}
	for name, all := range used {
		for _, e := range all {
			for _, m := range metric.FindAllString(e, -1) {
				if !known[m] && !known[parts.ReplaceAllString(m, "")] {
					t.Errorf("%s: there is no %s", name, m)
				}
			}
		}
	}
}

// TestAlerts_AreDescribed: docs/operations.md says for each alert what it means and what to do, and for no other. Each
// has a test.
func TestAlerts_AreDescribed(t *testing.T) {
	there := map[string]bool{}
	for _, m := range section.FindAllStringSubmatch(string(read(t, "../docs/operations.md")), -1) {
		there[m[1]] = true
	}
	tests := string(read(t, "prometheus/alerts_test.yaml"))
	for _, a := range alerts(t) {
		if !there[a.Alert] {
			t.Errorf("%s is not described", a.Alert)
		}
		if !strings.Contains(tests, "alertname: "+a.Alert+"\n    exp_alerts: [{") {
			t.Errorf("no test has %s fire", a.Alert)
		}
		delete(there, a.Alert)
	}
	for name := range there {
		t.Errorf("%s is described, and does not exist", name)
	}
}

// TestCompose_IsAValidConfiguration loads the settings of the compose file, with secrets in place of its files.
func TestCompose_IsAValidConfiguration(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal(read(t, "compose/compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"client-secret": "secret",
		"vault-keys": "2026:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"EODISPATCH_DEFAULT_LISTEN=0.0.0.0:8080"} // of the image
	for name, value := range file.Services["eodispatch"].Environment {
		environ = append(environ, name+"="+strings.ReplaceAll(value, "/run/secrets", folder))
	}
	c, err := config.Load("", environ)
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range c.Notes {
		if strings.Contains(note, "is unknown and was ignored") {
			t.Error(note)
		}
	}
	if len(c.Platforms) != 1 || c.Vault.Keys == "" || c.ShutdownDelay == 0 {
		t.Errorf("%+v", c)
	}
}
