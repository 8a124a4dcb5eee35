package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// place says where a service is that is not in the catalogue.
type place struct {
	platform, endpoint, protocol, namespace string
	at                                      string // which of the platforms that offer a service of the catalogue
}

var protocols = []string{wire.OpenEO, wire.OGCProcess}

// flags adds the flags to a command.
func (p *place) flags(a *app, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&p.platform, "platform", "", "run a process of this `PLATFORM`: SERVICE is its id or URL")
	flags.StringVar(&p.at, "at", "", "`PLATFORM` to use, if several offer the service")
	flags.StringVar(&p.endpoint, "endpoint", "", "like --platform, but the platform's `URL`; needs --protocol")
	flags.StringVar(&p.protocol, "protocol", "", "protocol of --endpoint: openeo or ogc_api_process")
	flags.StringVar(&p.namespace, "namespace", "", "namespace of the process at the platform")
	command.MarkFlagsMutuallyExclusive("platform", "endpoint", "at")
	// it fails only for a flag that does not exist
	_ = command.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(protocols,
		cobra.ShellCompDirectiveNoFileComp))
	// fails only for unknown flags
	_ = command.RegisterFlagCompletionFunc("platform", a.completePlatforms)
}

// found is a service with what a request for it needs.
type found struct {
	service    wire.ServiceChoice
	label      string
	title      string
	parameters []wire.Parameter
	example    json.RawMessage
}

// find returns a service of the catalogue, or a process of a platform.
func (p place) find(ctx context.Context, c *client.Client, name string) (found, error) {
	if p.platform == "" && p.endpoint == "" {
		return fromCatalogue(ctx, c, name, p.at)
	}
	if p.platform == "" && p.protocol == "" {
		return found{}, usage("--endpoint needs --protocol: %s", strings.Join(protocols, " or "))
	}
	f := found{service: wire.ServiceChoice{Endpoint: p.endpoint, Application: name}, label: p.protocol,
		title: strings.TrimSuffix(path.Base(name), ".json")}
	if p.platform != "" {
		at, err := platform(ctx, c, p.platform)
		if err != nil {
			return f, err
		}
		f.service.Endpoint, f.label = at.Endpoint, at.Label
	}
	if p.namespace != "" {
		f.service.Namespace = &p.namespace
	}
	return f.complete(ctx, c)
}

// formats are the names of the usual formats in requests, for completion.
var formats = []string{"gtiff", "netcdf", "geojson", "json"}

// fromCatalogue returns a service of the catalogue. One that several platforms offer keeps its id, so that the broker
// decides where it runs.
func fromCatalogue(ctx context.Context, c *client.Client, id, at string) (found, error) {
	s, err := c.Service(ctx, id)
	if err != nil {
		return found{}, withoutCatalogue(err)
	}
	f := found{service: wire.ServiceChoice{Endpoint: s.Endpoint, Application: s.Application, Namespace: s.Namespace},
		label: wire.OpenEO, title: s.Title, parameters: parametersOf(s), example: json.RawMessage(s.Example)}
	if s.Protocol != "openeo" {
		f.label = wire.OGCProcess
	}
	if at != "" || len(s.Homes) > 1 {
		f.service, f.label = wire.ServiceChoice{ID: id, Platform: at}, ""
	}
	if at != "" {
		f.parameters = nil // they are those of the first platform
	}
	return f.complete(ctx, c)
}

// parametersOf returns the parameters of a service; nil if they are not known.
func parametersOf(s wire.CatalogueService) (all []wire.Parameter) {
	if s.Parameters != nil {
		all = make([]wire.Parameter, 0, len(s.Parameters))
	}
	for _, p := range s.Parameters {
		all = append(all, wire.Parameter(p))
	}
	return all
}

// complete adds the parameters.
func (f found) complete(ctx context.Context, c *client.Client) (found, error) {
	if f.parameters != nil {
		return f, nil
	}
	var err error
	f.parameters, err = c.Parameters(ctx, f.service, f.label)
	return f, err
}

// parameter returns the parameter with a name.
func (f found) parameter(name string) (wire.Parameter, bool) {
	for _, p := range f.parameters {
		if p.Name == name {
			return p, true
		}
	}
	return wire.Parameter{}, false
}

// typeOf returns the type of the parameter with a name; "": the parameters are not known.
func (f found) typeOf(name string) (string, error) {
	p, known := f.parameter(name)
	if !known && len(f.parameters) > 0 {
		return "", fmt.Errorf("the service has no such parameter; it has: %s",
			strings.Join(namesOf(f.parameters), ", "))
	}
	return p.Type, nil
}

// has reports whether the service has a parameter of a type.
func (f found) has(kind string) bool {
	return slices.ContainsFunc(f.parameters, func(p wire.Parameter) bool { return p.Type == kind })
}

// takes returns the names of the parameters of some types that --area or --time fill, without those that are given: the
// required ones or, if there are none, the first optional one.
func (f found) takes(given map[string]json.RawMessage, types ...string) (names []string, err error) {
	optional := ""
	for _, p := range f.parameters {
		if _, ok := given[p.Name]; ok || !slices.Contains(types, p.Type) {
			continue
		}
		switch {
		case !p.Optional:
			names = append(names, p.Name)
		case optional == "":
			optional = p.Name
		}
	}
	if len(names) == 0 && optional != "" {
		names = []string{optional}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the service has no parameter of the type %s, or it has a value already", types[0])
	}
	return names, nil
}
