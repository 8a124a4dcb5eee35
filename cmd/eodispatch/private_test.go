package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/test/executable"
)

func TestStop_WaitsForItsDelay(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	synctest.Test(t, func(t *testing.T) {
		for _, delay := range []time.Duration{0, 5 * time.Second} {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, stop)
			begun := time.Now()
			s := &service{seen: telemetry.New("1", ""), log: log}
			if err, ended := s.serving(ctx, nil, nil, delay); err != nil || ended ||
				time.Since(begun) != time.Minute+delay {
				t.Errorf("%v %v after %v", err, ended, time.Since(begun))
			}
		}
		failed := make(chan error, 1)
		failed <- errors.New("port")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, ended := (&service{seen: telemetry.New("1", ""), log: log}).serving(ctx, failed, nil, time.Hour); !ended {
			t.Error("a server that has failed is waited for")
		}
	})
}

// The default address may be taken by another replica on the machine; one that was chosen must work.
func TestPrivateListener_AddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenPrivately(config.Telemetry{Listen: l.Addr().String()}, telemetry.New("1", ""),
		slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it does not fail")
	}
	if l, err := net.Listen("tcp", config.TelemetryDefault); err == nil {
		defer l.Close() // otherwise another process has it
	}
	var out executable.Log
	p, err := listenPrivately(config.Telemetry{Listen: config.TelemetryDefault}, telemetry.New("1", ""),
		slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil || p.server != nil || !strings.Contains(out.String(), "metrics and readiness are not served") {
		t.Errorf("%v %v\n%s", p, err, &out)
	}
	p.close()
}
