package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

// renewBefore is how long before its end a certificate is a fault.
const renewBefore = 7 * 24 * time.Hour

// certificateCheck is the check that the certificate for TLS can be used, and for a while.
func certificateCheck(settings *config.Config) check {
	c := check{name: "TLS certificate " + settings.TLS.CertFile,
		advice: "renew it; a running broker loads the files again when they change"}
	if settings.TLS.CertFile == "" {
		c.name = "TLS certificate: none; requests come by http or through a proxy"
		c.ask = withoutUnproven(func(context.Context) error { return nil })
		return c
	}
	c.ask = withoutUnproven(func(context.Context) error {
		own, err := newCertificate(settings.TLS, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		leaf, err := x509.ParseCertificate(own.loaded.Certificate[0])
		if err == nil && time.Until(leaf.NotAfter) < renewBefore {
			err = errors.New("it ends at " + leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		return err
	})
	return c
}

// privateCheck is the check that the broker on this machine is ready.
func privateCheck(settings *config.Config) check {
	c := check{name: "broker at " + settings.Telemetry.Listen, advice: "see docs/operations.md on /ready"}
	if settings.Telemetry.Listen == config.TelemetryOff {
		c.name, c.advice = "broker on this machine", "telemetry.listen is off"
	}
	c.ask = func(ctx context.Context) (unproven string, err error) {
		if settings.Telemetry.Listen == config.TelemetryOff {
			return "metrics and readiness are not served", nil
		}
		reason, ready, err := askReady(ctx, settings.Telemetry.Listen)
		switch {
		case err != nil:
			return "no response, so none runs on this machine", nil
		case !ready:
			return "", errors.New(reason)
		}
		return "", nil
	}
	return c
}

// mostInNeed is how many jobs are counted.
const mostInNeed = 1000

// inNeed returns notes on what operators hold, and on jobs that need them.
func inNeed(ctx context.Context, db *store.Store) (notes []string) {
	holds, err := db.OperatorHolds(ctx)
	for _, h := range holds {
		notes = append(notes, fmt.Sprintf("an operator (%s) has held %s since %s: %s", h.By, h.Scope,
			h.Since.UTC().Format(time.RFC3339), h.Notice))
	}
	var jobs []dispatch.Job
	for _, setAside := range []bool{false, true} {
		found, failed := db.Troubled(ctx, setAside, mostInNeed)
		jobs, err = append(jobs, found...), cmp.Or(err, failed)
	}
	if len(jobs) > 0 {
		notes = append(notes, fmt.Sprintf("%d jobs need attention; `eodispatch operator jobs` lists them", len(jobs)))
	}
	unknown := map[dispatch.Account]int{}
	for _, j := range jobs {
		if j.Attention == dispatch.SubmissionUnknown {
			unknown[j.Account]++
		}
	}
	for _, a := range slices.Sorted(maps.Keys(unknown)) {
		notes = append(notes,
			fmt.Sprintf("it is unknown whether the platform accepted %d jobs of %s, which hold slots: check there; "+
				"`eodispatch operator end %q REASON` ends them all", unknown[a], a, string(a)))
	}
	if err != nil {
		notes = append(notes, "cannot read holds, and jobs that need operators: "+strings.TrimSpace(explained(err)))
	}
	return notes
}
