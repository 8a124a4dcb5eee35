package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	facadeogcapi "github.com/eodispatch/eodispatch/api/facade/ogcapi"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/notify/events"
	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
)

// senderOf returns the sender of notifications to users' servers. Without a vault it has no secrets and signs no
// messages.
func senderOf(settings *config.Config, access *access, db *store.Store, installation string,
	processes *facadeogcapi.Facade, seen *telemetry.Telemetry, log *slog.Logger) (*events.Sender, error) {
	post, err := settings.Hooks.Mail.Sender()
	c := events.Config{Store: seams.hooks(db), Mail: post, Describe: describer(db, settings.PublicURL),
		Advice: openapi.Advice, Log: log, OnTry: seen.HookTried,
		Forms:  map[dispatch.HookKind]events.Form{dispatch.OGCSubscriber: processes.Message},
		Source: cmp.Or(settings.PublicURL, "urn:eodispatch:"+installation),
		Client: upstream.New(seams.network(upstream.Config{UserAgent: "eodispatch/" + ownVersion(),
			Development: settings.Development, Trust: settings.Hooks.Trusted}))}
	if access.ring != nil {
		c.Secrets = identity.NewHookSecrets(access.ring)
	}
	return events.New(c), err
}

// describer returns what says in a mail which job or task an event is about: its title, how many jobs of a task ended
// how, and a link.
func describer(kept broker.Records, public string) func(context.Context, dispatch.UserID, dispatch.Delivery) string {
	return func(ctx context.Context, u dispatch.UserID, d dispatch.Delivery) string {
		lines, place := []string{}, ""
		if id := cmp.Or(d.Of, d.Task); id != 0 {
			t, err := kept.Task(ctx, u, id)
			if err != nil {
				return ""
			}
			lines, place = append(lines, oneLine(t.Request.Title), countsOf(t.Counts)), fmt.Sprintf("tasks/%d", id)
			if t.Spending != nil {
				lines = append(lines, spentOf(t.Budget.Use(*t.Spending)))
			}
		} else if d.Job != 0 {
			r, err := kept.Record(ctx, u, d.Job)
			if err != nil {
				return ""
			}
			lines, place = append(lines, oneLine(r.Request.Title)), fmt.Sprintf("jobs/%d", d.Job)
		}
		if public != "" {
			lines = append(lines, public+"/#/"+place)
		}
		return strings.Join(lines, "\n")
	}
}

// countsOf says how many jobs have which status.
func countsOf(counts dispatch.Counts) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
	}
	return strings.Join(parts, ", ")
}

// spentOf says what was spent of a budget.
func spentOf(b dispatch.TaskBudget) string {
	return strings.TrimSpace(fmt.Sprintf("%s of %s %s spent", amount(b.Spent), amount(b.Amount), b.Unit))
}

// amount writes costs without digits that nobody needs.
func amount(costs float64) string { return strconv.FormatFloat(math.Round(costs*100)/100, 'f', -1, 64) }

// oneLine returns a title in one line.
func oneLine(title string) string { return strings.Join(strings.Fields(title), " ") }
