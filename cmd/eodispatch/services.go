package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/echo"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// offeredServices returns the catalogue of services. It reads no source.
func offeredServices(settings *config.Config, platforms catalogue.Platforms, kept catalogue.Sources,
	log *slog.Logger) *catalogue.Catalogue {
	servers := slices.DeleteFunc(slices.Clone(settings.Catalogue.Sources),
		func(source string) bool { return !isURL(source) })
	c := catalogue.Config{Sources: settings.Catalogue.Sources, Platforms: platforms, Store: kept,
		Every: settings.Catalogue.Refresh, Log: log,
		Client: upstream.New(seams.network(upstream.Config{UserAgent: "eodispatch/" + ownVersion(),
			Development: settings.Development, Trust: servers}))}
	for _, s := range settings.Services {
		c.Services = append(c.Services, configuredService(s, settings.Platforms))
	}
	if settings.OGCAPI.Echo {
		c.Services = append(c.Services, catalogue.Service{ID: echo.Process, Title: "Echo", Label: dispatch.OGCProcess,
			Service:     echo.Service(),
			Description: "Returns its input after a pause. It is for tests of conformance with OGC API - Processes."})
	}
	return catalogue.New(c)
}

// configuredService returns a service of the configuration, whose platform is one of the given.
func configuredService(s config.Service, platforms []config.Platform) catalogue.Service {
	first := configuredPlacement(config.ServicePlacement{Platform: s.Platform, Application: s.Application,
		Namespace: s.Namespace}, platforms)
	c := catalogue.Service{ID: s.ID, Title: s.Title, Description: s.Description, Keywords: s.Keywords,
		Cost: catalogue.Cost{Note: s.Cost}, Example: s.Example, Label: first.Label, Service: first.Service}
	for _, h := range s.Also {
		c.Also = append(c.Also, configuredPlacement(h, platforms))
	}
	return c
}

func configuredPlacement(h config.ServicePlacement, platforms []config.Platform) catalogue.Placement {
	at := platforms[slices.IndexFunc(platforms, func(p config.Platform) bool { return p.Name == h.Platform })]
	return catalogue.Placement{Label: at.Protocol.Label(), Service: dispatch.Service{Endpoint: at.Endpoint,
		Namespace: h.Namespace, Application: h.Application}}
}

// readServices returns the catalogue as its sources are now, without the database.
func readServices(ctx context.Context, settings *config.Config) *catalogue.Catalogue {
	offered := offeredServices(settings, broker.New(nil, dispatch.Setup{Backends: platforms(settings, nil)}), nil,
		slog.New(slog.DiscardHandler))
	offered.Read(ctx)
	return offered
}

// askSource reads one source of the catalogue.
func askSource(ctx context.Context, settings *config.Config, source string) error {
	only := *settings
	only.Catalogue.Sources = []string{source}
	if failure, failed := readServices(ctx, &only).Failures()[source]; failed {
		return errors.New(failure)
	}
	return nil
}

// platformsOf returns the names of a service's platforms in one line.
func platformsOf(s catalogue.Service) string {
	var names []string
	for _, h := range s.Placements() {
		names = append(names, h.Platform)
	}
	return strings.Join(names, ", ")
}

// listCatalogue prints all services of the catalogue, and what is not used with the reasons. It fails if a source
// cannot be read.
func listCatalogue(ctx context.Context, settings *config.Config, out io.Writer) error {
	offered := readServices(ctx, settings)
	all, _ := offered.Search(catalogue.Query{}) // without After it succeeds
	for _, s := range all.Services {
		fmt.Fprintf(out, "service   %s: %s (platform %s)\n", s.ID, s.Title, platformsOf(s))
	}
	refused := offered.Rejections()
	for _, r := range refused {
		fmt.Fprintf(out, "not used  %s: %s\n", strings.TrimSpace(r.Address+" "+r.ID), r.Reason)
	}
	failures := offered.Failures()
	for _, source := range settings.Catalogue.Sources {
		if failure, failed := failures[source]; failed {
			fmt.Fprintf(out, "FAIL      source %s: %s\n", source, failure)
		}
	}
	fmt.Fprintf(out, "services: %d, records not used: %d, sources that cannot be read: %d\n", all.Total, len(refused),
		len(failures))
	if len(failures) > 0 {
		return errSaid
	}
	return nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }
