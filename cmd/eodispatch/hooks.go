package main

import (
	"cmp"
	"log/slog"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/events"
	facadeogcapi "github.com/eodispatch/eodispatch/facade/ogcapi"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/telemetry"
	"github.com/eodispatch/eodispatch/upstream"
)

// senderOf returns what tells users' servers when jobs end. Without a vault it keeps no secrets, so that it signs no messages.
func senderOf(settings *config.Config, access *access, kept *store.Store, installation string, processes *facadeogcapi.Facade, seen *telemetry.Telemetry, log *slog.Logger) *events.Sender {
	c := events.Config{Store: kept, Log: log, OnTry: seen.HookTried, Forms: map[dispatch.HookKind]events.Form{dispatch.OGCSubscriber: processes.Message}, Source: cmp.Or(settings.PublicURL, "urn:eodispatch:"+installation),
		Client: upstream.New(upstream.Config{UserAgent: "eodispatch/" + ownVersion(), Development: settings.Development, Trust: settings.Hooks.Trusted})}
	if access.ring != nil {
		c.Secrets = identity.NewHookSecrets(access.ring)
	}
	return events.New(c)
}
