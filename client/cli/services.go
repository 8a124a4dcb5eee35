package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

func (a *app) servicesCommand() *cobra.Command {
	return &cobra.Command{Use: "services [QUERY]", GroupID: "services", Args: cobra.MaximumNArgs(1),
		Short:   "List or search the services of the catalogue",
		Example: "  eodispatch services\n  eodispatch services ndvi",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			var all []wire.ServiceSummary
			for s, err := range c.Services(ctx, append(args, "")[0]) {
				switch {
				case err != nil:
					return withoutCatalogue(err)
				case a.json:
					if err := a.print(s); err != nil {
						return err
					}
				default:
					all = append(all, s)
				}
			}
			if len(all) == 0 && !a.json {
				a.hint("No services found. List all with: eodispatch services")
			}
			if a.json || len(all) == 0 {
				return nil
			}
			return a.table("ID\tTITLE\tPLATFORM\tSTATE", func(row func(...any)) {
				for _, s := range all {
					row(s.ID, s.Title, strings.Join(s.Platforms(), ", "), s.PlatformState)
				}
			})
		})}
}

// withoutCatalogue explains the error of a broker that has no catalogue, or not this service in it.
func withoutCatalogue(err error) error {
	if client.IsCode(err, "SERVICE_NOT_FOUND") {
		return errors.New(
			"the catalogue has no such service. List services with: eodispatch services; run a process of a " +
				"platform with --platform NAME")
	}
	if client.IsCode(err, "NOT_FOUND") {
		return fmt.Errorf(
			"this broker has no catalogue. Run a process of a platform with --platform NAME, see eodispatch "+
				"platforms (%w)", err)
	}
	return err
}

func (a *app) serviceCommand() *cobra.Command {
	return &cobra.Command{Use: "service ID", GroupID: "services", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeServices,
		Short:             "Describe a service of the catalogue and its parameters",
		Example:           "  eodispatch service ndvi_composite",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Service(ctx, args[0])
			if err != nil || a.json {
				return a.printOr(withoutCatalogue(err), s)
			}
			fmt.Fprintf(a.Out, "%s\n%s, at %s\n\n%s\n\n", oneLine(s.Title, 200), s.ID,
				strings.Join(s.Platforms(), ", "), withoutMarks(printable(s.Description)))
			return a.showParameters(parametersOf(s))
		})}
}

func (a *app) paramsCommand() *cobra.Command {
	var at place
	command := &cobra.Command{Use: "params SERVICE", GroupID: "services", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeServices,
		Short:             "List the parameters of a service",
		Long: "List the parameters of a service of the catalogue or, with --platform, of a process of a " +
			"platform.",
		Example: `  eodispatch params ndvi_composite
  eodispatch params ndvi --platform simulated-ogc`,
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := at.find(ctx, c, args[0])
			if err != nil || a.json {
				return a.printOr(err, s.parameters)
			}
			return a.showParameters(s.parameters)
		})}
	at.flags(a, command)
	return command
}

func (a *app) showParameters(all []wire.Parameter) error {
	return a.table("PARAMETER\tTYPE\tREQUIRED\tDEFAULT\tDESCRIPTION", func(row func(...any)) {
		for _, p := range all {
			needed := "yes"
			if p.Optional {
				needed = "no"
			}
			given := "-"
			if len(p.Default) > 0 && string(p.Default) != "null" {
				given = oneLine(string(p.Default), 30)
			}
			description := p.Description
			if len(p.Options) > 0 {
				options, _ := json.Marshal(p.Options) // of JSON
				description = "one of " + string(options) + ": " + description
			}
			row(p.Name, p.Type, needed, given, description)
		}
	})
}

func (a *app) platformsCommand() *cobra.Command {
	return &cobra.Command{Use: "platforms", GroupID: "services", Args: cobra.NoArgs,
		Short:   "List the platforms and their state",
		Example: "  eodispatch platforms",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Platforms(ctx)
			if err != nil || a.json {
				return a.printOr(err, list)
			}
			return a.table("PLATFORM\tPROTOCOL\tSTATE\tQUEUE\tYOUR JOBS\tENDPOINT", func(row func(...any)) {
				for _, p := range list.Platforms {
					row(p.Name, p.Label, p.State, p.QueueLength, fmt.Sprintf("%d waiting, %d active", p.Jobs.Waiting,
						p.Jobs.Active), p.Endpoint)
				}
			})
		})}
}

func (a *app) gridsCommand() *cobra.Command {
	return &cobra.Command{Use: "grids", GroupID: "services", Args: cobra.NoArgs,
		Short:   "List the grids for splitting areas",
		Example: "  eodispatch grids",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Grids(ctx)
			if err != nil || a.json {
				return a.printOr(err, all)
			}
			return a.table("GRID\tCELLS\tDESCRIPTION", func(row func(...any)) {
				for _, g := range all {
					row(g.Name, g.Cells, g.Description)
				}
			})
		})}
}

func (a *app) tilesCommand() *cobra.Command {
	var by tiling
	command := &cobra.Command{Use: "tiles AREA --grid NAME", GroupID: "services", Args: cobra.ExactArgs(1),
		Short: "Split an area into tiles, as GeoJSON",
		Long: "Split an area into the tiles of a grid, and print them as a GeoJSON FeatureCollection, which run " +
			"--values takes.\n\n" + areaHelp + "\nWrite -- before a box that begins with a minus.",
		Example: `  eodispatch tiles 4,50,5,51 --grid 20x20km > tiles.geojson
  eodispatch tiles belgium.geojson --grid mgrs-100km --order centre
  eodispatch tiles belgium.geojson --grid utm-20km --min-area 1e6 --merge
  eodispatch tiles belgium.geojson --grid provinces.geojson
  eodispatch tiles --grid 20x20km -- -5,40,-4,41`,
		RunE: a.run(func(ctx context.Context, args []string) error {
			where, err := a.readArea(ctx, args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := by.tiles(ctx, c, where)
			if err != nil {
				return err
			}
			a.hint("%d tiles", len(found.Geometries))
			return a.print(tilesDocument(found))
		})}
	by.flags(a, command, "`GRID` as in eodispatch grids, or a GeoJSON file with cells of your own that have ids")
	_ = command.MarkFlagRequired("grid") // fails only for unknown flags
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
			err = fmt.Errorf("%w. Write -- before a box that begins with a minus: eodispatch tiles --grid NAME -- "+
				"-5,40,-4,41", err)
		}
		return err
	})
	return command
}

// tiling is what the flags say of how an area is split.
type tiling struct {
	grid, order     string
	minArea, buffer float64
	merge           bool
}

func (t *tiling) flags(a *app, command *cobra.Command, grid string) {
	flags := command.Flags()
	flags.StringVar(&t.grid, "grid", "", grid)
	flags.Float64Var(&t.minArea, "min-area", 0, "leave out tiles with less than this `AREA`, in square metres")
	flags.BoolVar(&t.merge, "merge", false, "merge tiles smaller than --min-area into a neighbour instead")
	flags.Float64Var(&t.buffer, "buffer", 0, "extend each tile beyond its cell by so many `METRES`")
	flags.StringVar(&t.order, "order", "", "`ORDER` of the tiles: row (from south to north, the default) or centre "+
		"(from the centre of the area)")
	_ = command.RegisterFlagCompletionFunc("grid", a.completeGrids) // these fail only for unknown flags
	_ = command.RegisterFlagCompletionFunc("order", cobra.FixedCompletions([]string{"row", "centre"},
		cobra.ShellCompDirectiveNoFileComp))
}

// tiles splits an area. A grid whose name ends like that of a JSON file is one.
func (t *tiling) tiles(ctx context.Context, c *client.Client, area json.RawMessage) (wire.GeometryCollection, error) {
	for name, metres := range map[string]float64{"min-area": t.minArea, "buffer": t.buffer} {
		if math.IsNaN(metres) || math.IsInf(metres, 0) {
			return wire.GeometryCollection{}, usage("--%s: not a finite number", name)
		}
	}
	r := wire.TileRequest{AOI: wire.Area{RawMessage: area}, Grid: t.grid, MinArea: t.minArea, Merge: t.merge,
		Buffer: t.buffer, Order: t.order}
	if ending := strings.ToLower(filepath.Ext(t.grid)); ending == ".json" || ending == ".geojson" {
		text, err := readFile(t.grid)
		if err != nil {
			return wire.GeometryCollection{}, usage("--grid: %w", err)
		}
		if !json.Valid(text) {
			return wire.GeometryCollection{}, usage("--grid: %s is not JSON", t.grid)
		}
		r.Grid, r.Cells = "", &wire.Cells{RawMessage: text}
	}
	return c.Tiles(ctx, r)
}

// feature is a GeoJSON Feature.
type feature struct {
	Type       string          `json:"type"`
	ID         string          `json:"id,omitempty"`
	Geometry   json.RawMessage `json:"geometry"`
	Properties map[string]any  `json:"properties"`
}

// features is a GeoJSON FeatureCollection.
type features struct {
	Type     string    `json:"type"`
	Features []feature `json:"features"`
}

func tilesDocument(t wire.GeometryCollection) features {
	document := features{"FeatureCollection", make([]feature, len(t.Geometries))}
	for i, g := range t.Geometries {
		document.Features[i] = feature{Type: "Feature", Geometry: g, Properties: map[string]any{}}
		if i < len(t.IDs) {
			document.Features[i].ID = t.IDs[i]
		}
	}
	return document
}
