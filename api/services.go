package api

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Services is the catalogue of services; [*catalogue.Catalogue] implements it.
type Services interface {
	Find(id string) (catalogue.Service, bool)
	Search(catalogue.Query) (page catalogue.Page, ok bool)
}

const (
	someServices = 50  // services of a page, if the request does not say how many
	mostServices = 200 // services of a page
	mostWords    = 300 // characters of a search
	mostFilters  = 50  // values of a filter

	describeWithin = 10 * time.Second // for what a platform says about a service
)

// rulesOf returns the rules of a service; nil if there are none.
func (a *api) rulesOf(ctx context.Context, s catalogue.Service) *wire.ServiceRules {
	p := a.Broker.Policy(s.Service, s.Label)
	shown := &wire.ServiceRules{Permitted: p.Entitled == nil || p.Entitled(ctx), Format: orNil(p.Format),
		MaxDuration: orNil(int64(p.MaxDuration / time.Second))}
	if p.Budget != (dispatch.Budget{}) {
		shown.Budget = &wire.ServiceBudget{Amount: p.Budget.Amount, Unit: orNil(p.Budget.Unit)}
	}
	if len(p.Options) > 0 {
		text, _ := dispatch.Encode(p.Options) // they were JSON
		shown.Options = new(wire.Object(text))
	}
	if p.Entitled == nil && *shown == (wire.ServiceRules{Permitted: true}) {
		return nil
	}
	return shown
}

// catalogueRoutes registers the operations on the catalogue of services.
func (a *api) catalogueRoutes() {
	openapi.Register(a.Document, huma.Operation{OperationID: "list_services", Method: http.MethodGet, Path: "/services",
		Tags:        []string{"services"},
		Summary:     "List the services of the catalogue",
		Description: "Returns the services that you can run by their id: service: {\"id\": …} in a request.",
		Security:    a.catalogueSecurity(), Parameters: servicesParams, Responses: a.Errors(401, 422, 503)},
		a.listServices)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "get_service", Method: http.MethodGet, Path: "/services/{service_id}",
			Tags:        []string{"services"},
			Summary:     "Get a service of the catalogue",
			Description: "Returns the service with its parameters, for which its platform may be asked.",
			Security:    a.catalogueSecurity(),
			Parameters:  []*huma.Param{openapi.PathParam("service_id")}, Responses: a.Errors(401, 404, 503)},
		a.readService)
}

// catalogueSecurity says that a token is optional, if the operator opened the catalogue.
func (a *api) catalogueSecurity() []map[string][]string {
	if a.OpenCatalogue {
		return []map[string][]string{{}, {"bearer": {}}}
	}
	return nil
}

var servicesParams = []*huma.Param{
	{Name: "q", In: "query",
		Description: "Only services whose texts have all of these words. Case and accents do not matter.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: new(mostWords)}},
	{Name: "platform", In: "query", Explode: new(true), Description: "Only services on one of these platforms.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString},
			MaxItems: new(mostFilters)}},
	{Name: "keyword", In: "query", Explode: new(true), Description: "Only services with all of these keywords.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString},
			MaxItems: new(mostFilters)}},
	{Name: "limit", In: "query", Description: "Maximum number of services.",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(mostServices)),
			Default: someServices}},
	{Name: "cursor", In: "query", Description: "The value of next in the previous page.",
		Schema: &huma.Schema{Type: huma.TypeString}},
}

func (a *api) listServices(ctx context.Context, in *openapi.Request) (*openapi.Status[wire.ServiceList], error) {
	query := in.Query()
	page, ok := a.Services.Search(catalogue.Query{Words: query.Get("q"), Platforms: query["platform"],
		Keywords: query["keyword"], After: query.Get("cursor"), Limit: openapi.Integer(query, "limit", someServices)})
	if !ok {
		return nil, call.InvalidQuery("cursor", "Input should be next of another page of this list")
	}
	states, err := a.platformStates(ctx)
	if err != nil {
		return nil, err
	}
	list := wire.ServiceList{Services: []wire.ServiceSummary{}, Next: page.Next, Total: page.Total,
		Platforms: []wire.PlatformCount{},
		Keywords:  []wire.KeywordCount{}}
	for _, s := range page.Services {
		list.Services = append(list.Services, serviceSummary(s, states))
	}
	for _, c := range page.Platforms {
		list.Platforms = append(list.Platforms, wire.PlatformCount{ID: c.Name, Title: c.Name, Services: c.Services})
	}
	for _, c := range page.Keywords {
		list.Keywords = append(list.Keywords, wire.KeywordCount{Keyword: c.Name, Services: c.Services})
	}
	return openapi.StatusOf(list), nil
}

var errNoService = call.Refusal{Status: http.StatusNotFound, Code: "SERVICE_NOT_FOUND",
	Message: "The catalogue has no such service. It may have been removed since."}

func (a *api) readService(ctx context.Context, in *openapi.Request) (*openapi.Status[wire.CatalogueService], error) {
	s, ok := a.Services.Find(in.HTTP.Param("service_id"))
	if !ok {
		return nil, errNoService
	}
	states, err := a.platformStates(ctx)
	if err != nil {
		return nil, err
	}
	shown := wire.CatalogueService{ServiceSummary: serviceSummary(s, states), Description: s.Description,
		DescriptionHTML: s.HTML,
		Links:           each(s.Links, func(l catalogue.Link) wire.ServiceLink { return wire.ServiceLink(l) }),
		Cost: wire.ServiceCost{Estimate: s.Cost.Estimate, Unit: orNil(s.Cost.Unit),
			Note: orNil(s.Cost.Note)},
		Endpoint: s.Service.Endpoint, Application: s.Service.Application, Namespace: s.Service.Namespace,
		Example: wire.Object(s.Example), Rules: a.rulesOf(ctx, s)}
	a.describeService(ctx, s, &shown)
	return openapi.StatusOf(shown), nil
}

// describeService adds the parameters and the formats, as far as they are known within describeWithin.
func (a *api) describeService(ctx context.Context, s catalogue.Service, shown *wire.CatalogueService) {
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { shown.Formats = a.serviceFormats(ctx, s) })
	parameters, err := a.Broker.Parameters(ctx, call.User(ctx), s.Service, s.Label)
	if err == nil {
		shown.Parameters = each(parameters, func(p dispatch.Parameter) wire.ServiceParameter {
			return wire.ServiceParameter(wireParameter(p))
		})
	} else {
		r, id := call.RefusalFor(call.RequestError(err)), call.In(ctx).ID
		shown.ParametersError = &wire.ErrorResponse{Status: "error", ErrorCode: r.Code, Message: r.Message,
			Details:   r.Details,
			RequestID: &id}
	}
	both.Wait()
}

// serviceFormats returns the output formats that the platform lists for a service or, if it does not list any, those of
// the record.
func (a *api) serviceFormats(ctx context.Context, s catalogue.Service) (shown []wire.ServiceFormat) {
	listed, err := a.Broker.Formats(ctx, call.User(ctx), s.Service, s.Label)
	if err != nil {
		a.Log.DebugContext(ctx, "output formats not read", "error", err)
	}
	for _, f := range listed {
		shown = append(shown, wire.ServiceFormat{Name: f.Name, Title: cmp.Or(f.Title, f.Name),
			GISDataTypes: append([]string{}, f.GISDataTypes...)})
	}
	if len(listed) > 0 {
		return shown
	}
	for _, name := range s.Formats {
		shown = append(shown, wire.ServiceFormat{Name: name, Title: name, GISDataTypes: []string{}})
	}
	return shown
}

// platformStates returns the states of all platforms by name, for the user who asks, or for somebody who has not signed
// in.
func (a *api) platformStates(ctx context.Context) (map[string]string, error) {
	all, _, _, err := a.Broker.Platforms(ctx, call.User(ctx))
	states := make(map[string]string, len(all))
	for _, p := range all {
		state := p.State
		if call.User(ctx) == "" && state == dispatch.StateForbidden { // the caller may be permitted after a sign-in
			state = dispatch.StateSignInRequired
		}
		states[p.Name] = string(state)
	}
	return states, err
}

func serviceSummary(s catalogue.Service, states map[string]string) wire.ServiceSummary {
	shown := wire.ServiceSummary{ID: s.ID, Title: s.Title, Summary: s.Summary, Keywords: append([]string{},
		s.Keywords...), Platform: s.Platform,
		PlatformState: cmp.Or(states[s.Platform], string(dispatch.StateUnknown)), Label: string(s.Label),
		Protocol: openapi.ProtocolOf[s.Label],
		Licence:  orNil(s.Licence), Thumbnail: orNil(s.Thumbnail), Updated: live.Known(s.Updated),
		StaleSince: live.Known(s.StaleSince)}
	for _, h := range s.Placements() {
		if len(s.Also) > 0 {
			shown.Homes = append(shown.Homes, wire.ServiceHome{Platform: h.Platform,
				PlatformState: cmp.Or(states[h.Platform], string(dispatch.StateUnknown)),
				Label:         string(h.Label)})
		}
	}
	if s.Provider.Name != "" {
		shown.Provider = &wire.ServiceProvider{Name: s.Provider.Name, URL: orNil(s.Provider.URL)}
	}
	return shown
}
