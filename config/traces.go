package config

import (
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Fields returns the headers of each request to the receiver, which are written as OpenTelemetry specifies: NAME=VALUE,
// separated by commas, with values escaped as in URLs.
func (t Traces) Fields() (map[string]dispatch.Secret, error) {
	fields := map[string]dispatch.Secret{}
	for one := range strings.SplitSeq(t.Headers.Reveal(), ",") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, text, found := strings.Cut(one, "=")
		value, err := url.PathUnescape(strings.TrimSpace(text))
		if name = strings.TrimSpace(name); !found || err != nil || !httpguts.ValidHeaderFieldName(name) ||
			!httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf(
				"write NAME=VALUE, separated by commas, with values escaped as in URLs: x-api-key=abc,x-tenant=eo")
		}
		fields[name] = dispatch.Secret(value)
	}
	return fields, nil
}

// tracesPath is where a receiver of OTLP accepts traces.
const tracesPath = "/v1/traces"

// addTraces fills in what the variables of OpenTelemetry say, as orchestrators set them.
func (r *reader) addTraces() {
	if exporter, set := r.env.lookup("OTEL_TRACES_EXPORTER"); strings.EqualFold(r.env["OTEL_SDK_DISABLED"], "true") ||
		set && exporter != "otlp" {
		return
	}
	if base, set := r.env.lookup("OTEL_EXPORTER_OTLP_ENDPOINT"); set &&
		r.env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "" {
		r.add("OTEL_EXPORTER_OTLP_ENDPOINT", "traces", "endpoint", scalar(strings.TrimRight(base, "/")+tracesPath))
	}
	for _, kind := range []string{"TRACES_", ""} { // the first that is set counts
		r.addText("OTEL_EXPORTER_OTLP_"+kind+"ENDPOINT", "traces", "endpoint")
		r.addText("OTEL_EXPORTER_OTLP_"+kind+"HEADERS", "traces", "headers")
	}
}

// finishTraces completes the address of the receiver, and notes what is not protected.
func (r *reader) finishTraces(c *Config) {
	t := &c.Traces
	if fields, err := t.Fields(); err != nil && !r.failed("traces.headers") {
		r.failAt("traces.headers", "%v", err)
	} else if t.Endpoint == "" && len(fields) > 0 {
		r.failAt("traces.headers", "has no effect: set traces.endpoint")
	}
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "http" && u.Scheme != "https" {
		r.failAt("traces.endpoint", "write the URL of a receiver of OTLP over HTTP: http://collector:4318")
		return
	}
	if u.Path == "" {
		t.Endpoint += tracesPath
	}
	if u.Scheme == "http" && t.Headers != "" && !loopback(u.Hostname()) && !c.Development {
		c.Notes = append(c.Notes, "traces.headers cross the network unencrypted: write traces.endpoint with https")
	}
	if r.env["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc" || r.env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "grpc" {
		c.Notes = append(c.Notes,
			"traces are sent by OTLP over HTTP, and OTEL_EXPORTER_OTLP_PROTOCOL is grpc: the receiver's port for "+
				"HTTP is 4318 by default")
	}
}
