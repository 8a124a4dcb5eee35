package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestTraces_Variables: the variables of OpenTelemetry are obeyed as it specifies, and the file takes precedence over
// them.
func TestTraces_Variables(t *testing.T) {
	const all, own = "OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318/",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://own:4318/in"
	for _, row := range []struct {
		file     string
		environ  []string
		endpoint string
		headers  dispatch.Secret
	}{
		{"", nil, "", ""},
		{"", []string{all}, "http://all:4318/v1/traces", ""},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all/otlp"}, "http://all/otlp/v1/traces", ""},
		{"", []string{all, own}, "http://own:4318/in", ""},
		{"", []string{all, "OTEL_EXPORTER_OTLP_HEADERS=a=b"}, "http://all:4318/v1/traces", "a=b"},
		{"", []string{all, "OTEL_EXPORTER_OTLP_HEADERS=a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=c=d"},
			"http://all:4318/v1/traces", "c=d"},
		{"", []string{all, "OTEL_SDK_DISABLED=true"}, "", ""},
		{"", []string{own, "OTEL_TRACES_EXPORTER=none"}, "", ""},
		{"", []string{own, "OTEL_TRACES_EXPORTER=otlp"}, "http://own:4318/in", ""},
		{"traces: {endpoint: 'http://file:4318'}\n", []string{all}, "http://file:4318/v1/traces", ""},
		{"traces: {endpoint: 'http://file:4318'}\n", []string{"EODISPATCH_TRACES_ENDPOINT=http://variable/x", all},
			"http://variable/x", ""},
	} {
		c, err := load("x.yaml", []byte(minimal+row.file), row.environ)
		if err != nil {
			t.Errorf("%s %v: %v", row.file, row.environ, err)
		} else if c.Traces.Endpoint != row.endpoint || c.Traces.Headers != row.headers {
			t.Errorf("%s %v: %s %s", row.file, row.environ, c.Traces.Endpoint, c.Traces.Headers.Reveal())
		}
	}
}

func TestTraces_Faults(t *testing.T) {
	for _, row := range []struct{ given, environ, fault, note string }{
		{"{endpoint: 'collector:4318'}", "", "traces.endpoint: write the URL", ""},
		{"{endpoint: 'http://u:p@collector:4318'}", "", "traces.endpoint: write the URL", ""},
		{"{endpoint: 'http://collector:4318?key=a'}", "", "traces.endpoint: write the URL", ""},
		{"{endpoint: 'http://collector:4318', headers: 'a=b'}", "",
			"traces.headers: the file must not contain the secret itself", ""},
		{"{endpoint: 'http://collector:4318', headers: 'env:H'}", "H=a b", "traces.headers: write NAME=VALUE", ""},
		{"{endpoint: 'http://collector:4318', headers: 'env:H'}", "H=a=b%0Ac", "traces.headers: write NAME=VALUE", ""},
		{"{headers: 'env:H'}", "H=a=b", "traces.headers: has no effect", ""},
		{"{endpoint: 'http://collector:4318', headers: 'env:H'}", "H=a=b", "",
			"traces.headers cross the network unencrypted"},
		{"{endpoint: 'http://collector:4317'}", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "", "is grpc"},
	} {
		c, err := load("x.yaml", []byte(minimal+"traces: "+row.given+"\n"), []string{row.environ})
		switch {
		case row.fault != "" && !strings.Contains(fmt.Sprint(err), row.fault), row.fault == "" && err != nil:
			t.Errorf("%s %s: %v", row.given, row.environ, err)
		case err == nil && !strings.Contains(strings.Join(c.Notes, "\n"), row.note):
			t.Errorf("%s %s: %q", row.given, row.environ, c.Notes)
		}
	}
}

func TestTraces_Fields(t *testing.T) {
	got, err := Traces{Headers: "x-api-key=a%20key, Authorization=Basic%20dTpw ,,x-empty="}.Fields()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]dispatch.Secret{"x-api-key": "a key", "Authorization": "Basic dTpw", "x-empty": ""},
		got); d != "" {
		t.Error(d)
	}
}
