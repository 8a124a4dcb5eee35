package main

import (
	"context"
	"log/slog"
	"net/url"
	"slices"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/observe/tracing"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// startTraces begins to record traces as the settings say; nil: they are off.
func startTraces(ctx context.Context, settings *config.Config, log *slog.Logger) (*tracing.Tracing, error) {
	fields, err := settings.Traces.Fields()
	if err != nil {
		return nil, err
	}
	traces, err := tracing.Start(ctx, tracing.Config{Endpoint: settings.Traces.Endpoint, Headers: fields,
		Incoming: settings.Traces.Incoming, Version: ownVersion(), Log: log})
	if err == nil && traces != nil {
		log.InfoContext(ctx, "traces are sent", "to", settings.Traces.Endpoint)
	}
	return traces, err
}

// tracesCheck is the check that the receiver of traces takes them.
func tracesCheck(settings *config.Config) check {
	ask := func(ctx context.Context) error {
		fields, err := settings.Traces.Fields()
		if err != nil {
			return err
		}
		return tracing.Check(ctx, tracing.Config{Endpoint: settings.Traces.Endpoint, Headers: fields})
	}
	return check{name: "receiver of traces " + settings.Traces.Endpoint, ask: withoutUnproven(ask),
		advice: "check `traces.endpoint`, which is that of OTLP over HTTP (port 4318 by default), and " +
			"`traces.headers`; jobs run without it"}
}

// databaseSystem is the kind of the configured database, in the words of OpenTelemetry.
func databaseSystem(settings *config.Config) string {
	if allowsSeveral(settings.Database.Reveal()) {
		return "postgresql"
	}
	return "sqlite"
}

// receivesTraces returns whether a server is sent the trace context: one of a platform for which that is configured.
func receivesTraces(settings *config.Config) func(*url.URL) bool {
	var endpoints []string
	for _, p := range settings.Platforms {
		if p.Traceparent {
			endpoints = append(append(endpoints, p.Endpoint), p.Aliases...)
		}
	}
	return func(u *url.URL) bool {
		return slices.ContainsFunc(endpoints, func(endpoint string) bool {
			return upstream.SameOrigin(endpoint, u.String())
		})
	}
}

func receivesNone(*url.URL) bool { return false }
