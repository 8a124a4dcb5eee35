package main

import (
	"cmp"
	"log/slog"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/events"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/telemetry"
	"github.com/eodispatch/eodispatch/upstream"
)

// senderOf returns what tells users' servers when jobs end; nil without a vault, because the secrets that sign messages are sealed by its keys.
func senderOf(settings *config.Config, access *access, kept *store.Store, installation string, seen *telemetry.Telemetry, log *slog.Logger) *events.Sender {
	if access.ring == nil {
		return nil
	}
	return events.New(events.Config{Store: kept, Secrets: identity.NewHookSecrets(access.ring), Log: log, OnTry: seen.HookTried,
		Source: cmp.Or(settings.PublicURL, "urn:eodispatch:"+installation),
		Client: upstream.New(upstream.Config{UserAgent: "eodispatch/" + ownVersion(), Development: settings.Development, Trust: settings.Hooks.Trusted})})
}
