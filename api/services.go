package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/catalogue"
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

// ServiceSummary is a service of the catalogue as lists show it.
type ServiceSummary struct {
	ID            string           `json:"id" example:"ndvi_composite"`
	Title         string           `json:"title"`
	Summary       string           `json:"summary" doc:"The first sentences of the description: plain text, at most 300 characters"`
	Keywords      []string         `json:"keywords" nullable:"false"`
	Platform      string           `json:"platform" doc:"Name of the platform that runs it"`
	PlatformState string           `json:"platform_state" enum:"ok,unknown,unreachable,busy,sign_in_required,misconfigured,forbidden" doc:"As in GET /platforms"`
	Label         string           `json:"label" enum:"openeo,ogc_api_process" doc:"The protocol, as requests and jobs name it"`
	Protocol      string           `json:"protocol" example:"openeo" doc:"The protocol, as the configuration names it: openeo or ogcapi"`
	Provider      *ServiceProvider `json:"provider" doc:"Who offers it"`
	Licence       *string          `json:"licence" nullable:"true"`
	Thumbnail     *string          `json:"thumbnail" nullable:"true" doc:"URL of an image at another server"`
	Updated       *time.Time       `json:"updated" nullable:"true" doc:"When its description last changed"`
	Homes         []ServiceHome    `json:"homes,omitempty" doc:"The platforms that offer it, if there are several. The first is platform. A request can name one: service: {\"id\": …, \"platform\": …}"`
	StaleSince    *time.Time       `json:"stale_since" nullable:"true" doc:"When its description was last read, if it could not be read again since. null: it is current"`
}

// ServiceHome is a platform that offers a service.
type ServiceHome struct {
	Platform      string `json:"platform" doc:"Name of the platform"`
	PlatformState string `json:"platform_state" enum:"ok,unknown,unreachable,busy,sign_in_required,misconfigured,forbidden" doc:"As in GET /platforms"`
	Label         string `json:"label" enum:"openeo,ogc_api_process" doc:"The protocol there"`
}

// ServiceProvider is who offers a service.
type ServiceProvider struct {
	Name string  `json:"name"`
	URL  *string `json:"url" nullable:"true"`
}

// CatalogueService is a service of the catalogue.
type CatalogueService struct {
	ServiceSummary
	Description     string             `json:"description" doc:"Markdown, as its author wrote it: to be sanitised before it is shown"`
	DescriptionHTML string             `json:"description_html" doc:"The description as sanitised HTML: without scripts, styles, images and frames, and with links to web and mail addresses only. Its headings begin at h3"`
	Links           []ServiceLink      `json:"links" nullable:"false" doc:"Links to web and mail addresses"`
	Cost            ServiceCost        `json:"cost"`
	Endpoint        string             `json:"endpoint"`
	Application     string             `json:"application"`
	Namespace       *string            `json:"namespace" nullable:"true"`
	Parameters      []ServiceParameter `json:"parameters" nullable:"true" doc:"As POST /params returns them. null: see parameters_error"`
	ParametersError *ErrorResponse     `json:"parameters_error" doc:"Why the parameters are not known now"`
	Formats         []ServiceFormat    `json:"formats" nullable:"true" doc:"The output formats that a request can name: those of the process or of its platform, or those that the service's description names. null: not known"`
	Rules           *ServiceRules      `json:"rules" doc:"What the operator of the broker says about requests for it. null: nothing"`
	Example         *Object            `json:"example" nullable:"true" doc:"Parameters for which the service gives a result"`
}

// ServiceRules are the operator's defaults and limits of requests for a service.
type ServiceRules struct {
	Permitted   bool           `json:"permitted" doc:"Whether you may run it. Without a sign-in: whether everybody may"`
	Format      *string        `json:"format" nullable:"true" doc:"Format of the results of requests that name none"`
	MaxDuration *int64         `json:"max_duration" nullable:"true" doc:"Seconds: the longest max_duration of a request, and that of requests that have none"`
	Budget      *ServiceBudget `json:"budget" doc:"Budget of tasks that have none"`
	Options     *Object        `json:"options" nullable:"true" doc:"Options of requests that do not give them"`
}

// ServiceBudget is a budget for the tasks of a service.
type ServiceBudget struct {
	Amount float64 `json:"amount"`
	Unit   *string `json:"unit" nullable:"true" doc:"null: the one in which the platform charges"`
}

// rulesOf returns the rules of a service; nil if there are none.
func (a *api) rulesOf(ctx context.Context, s catalogue.Service) *ServiceRules {
	p := a.Broker.Policy(s.Service, s.Label)
	shown := &ServiceRules{Permitted: p.Entitled == nil || p.Entitled(ctx), Format: optional(p.Format)}
	if p.MaxDuration > 0 {
		shown.MaxDuration = new(int64(p.MaxDuration / time.Second))
	}
	if p.Budget != (dispatch.Budget{}) {
		shown.Budget = &ServiceBudget{p.Budget.Amount, optional(p.Budget.Unit)}
	}
	if len(p.Options) > 0 {
		text, _ := dispatch.Encode(p.Options) // they were JSON
		shown.Options = &Object{text}
	}
	if p.Entitled == nil && *shown == (ServiceRules{Permitted: true}) {
		return nil
	}
	return shown
}

// ServiceLink is a link of a service.
type ServiceLink struct {
	Rel   string `json:"rel"`
	Href  string `json:"href"`
	Title string `json:"title"`
	Type  string `json:"type" doc:"Media type; empty: not known"`
}

// ServiceCost is what a service costs, as its provider says.
type ServiceCost struct {
	Estimate *float64 `json:"estimate" nullable:"true"`
	Unit     *string  `json:"unit" nullable:"true" example:"platform credits per km²"`
	Note     *string  `json:"note" nullable:"true"`
}

// ServiceFormat is an output format.
type ServiceFormat struct {
	Name         string   `json:"name"`
	Title        string   `json:"title"`
	GISDataTypes []string `json:"gis_data_types" nullable:"false" doc:"As in openEO: raster, vector, table, pointcloud, other"`
}

// ServiceList is a page of the catalogue.
type ServiceList struct {
	Services  []ServiceSummary `json:"services" nullable:"false" doc:"Those with the words of q in their titles come first, then in the order of titles"`
	Next      string           `json:"next,omitempty" doc:"The cursor of the next page; absent on the last page"`
	Total     int              `json:"total" doc:"Services on all pages"`
	Platforms []PlatformCount  `json:"platforms" nullable:"false" doc:"The platforms of the services that the request selects, whatever its platform"`
	Keywords  []KeywordCount   `json:"keywords" nullable:"false" doc:"The most frequent keywords of the services that the request selects, whatever its keyword; 200 at most"`
}

// PlatformCount is a platform and its number of services.
type PlatformCount struct {
	ID       string `json:"id" doc:"Name of the platform"`
	Title    string `json:"title"`
	Services int    `json:"services"`
}

// KeywordCount is a keyword and its number of services.
type KeywordCount struct {
	Keyword  string `json:"keyword"`
	Services int    `json:"services"`
}

// catalogueRoutes registers the operations on the catalogue of services.
func (a *api) catalogueRoutes() {
	register(a, huma.Operation{OperationID: "list_services", Method: http.MethodGet, Path: "/services",
		Tags:        []string{"services"},
		Summary:     "List the services of the catalogue",
		Description: "Returns the services that you can run by their id: service: {\"id\": …} in a request.",
		Security:    a.catalogueSecurity(), Parameters: servicesParams, Responses: a.errors(401, 422, 503)}, a.listServices)
	register(a, huma.Operation{OperationID: "get_service", Method: http.MethodGet, Path: "/services/{service_id}",
		Tags:        []string{"services"},
		Summary:     "Get a service of the catalogue",
		Description: "Returns the service with its parameters, for which its platform may be asked.",
		Security:    a.catalogueSecurity(), Parameters: []*huma.Param{{Name: "service_id", In: "path", Required: true,
			Schema: &huma.Schema{Type: huma.TypeString}}},
		Responses: a.errors(401, 404, 503)}, a.readService)
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
		Schema:      &huma.Schema{Type: huma.TypeString}},
	{Name: "platform", In: "query", Explode: new(true), Description: "Only services on one of these platforms.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}},
	{Name: "keyword", In: "query", Explode: new(true), Description: "Only services with all of these keywords.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}},
	{Name: "limit", In: "query", Description: "Maximum number of services.",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(mostServices)),
			Default: someServices}},
	{Name: "cursor", In: "query", Description: "next of the page before.", Schema: &huma.Schema{Type: huma.TypeString}},
}

func (a *api) listServices(ctx context.Context, in *request) (*status[ServiceList], error) {
	address := in.http.URL()
	q, faults := servicesQuery(address.Query())
	if len(faults) > 0 {
		return nil, invalid(faults)
	}
	page, ok := a.Services.Search(q)
	if !ok {
		return nil, invalid([]dispatch.Fault{queryFault("cursor", "value_error",
			"Input should be next of another page of this list")})
	}
	states, err := a.platformStates(ctx)
	if err != nil {
		return nil, err
	}
	list := ServiceList{Services: []ServiceSummary{}, Next: page.Next, Total: page.Total, Platforms: []PlatformCount{},
		Keywords: []KeywordCount{}}
	for _, s := range page.Services {
		list.Services = append(list.Services, serviceSummary(s, states))
	}
	for _, c := range page.Platforms {
		list.Platforms = append(list.Platforms, PlatformCount{c.Name, c.Name, c.Services})
	}
	for _, c := range page.Keywords {
		list.Keywords = append(list.Keywords, KeywordCount{c.Name, c.Services})
	}
	return &status[ServiceList]{revalidate, list}, nil
}

func servicesQuery(given url.Values) (q catalogue.Query, faults []dispatch.Fault) {
	q = catalogue.Query{Words: given.Get("q"), Platforms: given["platform"], Keywords: given["keyword"],
		After: given.Get("cursor"), Limit: someServices}
	if utf8.RuneCountInString(q.Words) > mostWords {
		faults = append(faults, queryFault("q", "string_too_long", "String should have at most "+strconv.Itoa(mostWords)+
			" characters"))
	}
	for _, name := range []string{"platform", "keyword"} {
		if len(given[name]) > mostFilters {
			faults = append(faults, queryFault(name, "too_long", "List should have at most "+strconv.Itoa(mostFilters)+" items"))
		}
	}
	if text := given.Get("limit"); text != "" {
		var err error
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > mostServices {
			faults = append(faults, queryFault("limit", "value_error", "Input should be a whole number from 1 to "+
				strconv.Itoa(mostServices)))
		}
	}
	return q, faults
}

func queryFault(name, kind, msg string) dispatch.Fault {
	return dispatch.Fault{Loc: []any{"query", name}, Type: kind, Msg: msg}
}

var errNoService = refusal{status: http.StatusNotFound, code: "SERVICE_NOT_FOUND",
	message: "The catalogue has no such service. It may have been removed since."}

func (a *api) readService(ctx context.Context, in *request) (*status[CatalogueService], error) {
	s, ok := a.Services.Find(in.http.Param("service_id"))
	if !ok {
		return nil, errNoService
	}
	states, err := a.platformStates(ctx)
	if err != nil {
		return nil, err
	}
	shown := CatalogueService{ServiceSummary: serviceSummary(s, states), Description: s.Description,
		DescriptionHTML: s.HTML, Links: []ServiceLink{},
		Cost:     ServiceCost{s.Cost.Estimate, optional(s.Cost.Unit), optional(s.Cost.Note)},
		Endpoint: s.Service.Endpoint, Application: s.Service.Application, Namespace: s.Service.Namespace}
	for _, l := range s.Links {
		shown.Links = append(shown.Links, ServiceLink(l))
	}
	if s.Example != nil {
		shown.Example = &Object{s.Example}
	}
	shown.Rules = a.rulesOf(ctx, s)
	a.describeService(ctx, s, &shown)
	return &status[CatalogueService]{revalidate, shown}, nil
}

// describeService adds the parameters and the formats, as far as they are known within describeWithin.
func (a *api) describeService(ctx context.Context, s catalogue.Service, shown *CatalogueService) {
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { shown.Formats = a.serviceFormats(ctx, s) })
	parameters, err := a.Broker.Parameters(ctx, user(ctx), s.Service, s.Label)
	if err == nil {
		shown.Parameters = make([]ServiceParameter, len(parameters))
		for i, p := range parameters {
			shown.Parameters[i] = ServiceParameter(wireParameter(p))
		}
	} else {
		r, id := refusalFor(requestError(err)), callIn(ctx).id
		shown.ParametersError = &ErrorResponse{Status: "error", ErrorCode: r.code, Message: r.message, Details: r.details,
			RequestID: &id}
	}
	both.Wait()
}

// serviceFormats returns the output formats that the platform lists for a service or, if it does not list any, those of
// the record.
func (a *api) serviceFormats(ctx context.Context, s catalogue.Service) (shown []ServiceFormat) {
	listed, err := a.Broker.Formats(ctx, user(ctx), s.Service, s.Label)
	if err != nil {
		a.Log.DebugContext(ctx, "output formats not read", "error", err)
	}
	for _, f := range listed {
		shown = append(shown, ServiceFormat{f.Name, cmp.Or(f.Title, f.Name), append([]string{}, f.GISDataTypes...)})
	}
	if len(listed) > 0 {
		return shown
	}
	for _, name := range s.Formats {
		shown = append(shown, ServiceFormat{name, name, []string{}})
	}
	return shown
}

// platformStates returns the states of all platforms by name, for the user who asks, or for somebody who has not signed
// in.
func (a *api) platformStates(ctx context.Context) (map[string]string, error) {
	all, _, _, err := a.Broker.Platforms(ctx, user(ctx))
	states := make(map[string]string, len(all))
	for _, p := range all {
		state := p.State
		if user(ctx) == "" && state == dispatch.StateForbidden { // the caller may be permitted after a sign-in
			state = dispatch.StateSignInRequired
		}
		states[p.Name] = string(state)
	}
	return states, err
}

var protocolOf = map[dispatch.Label]string{dispatch.OpenEO: "openeo", dispatch.OGCProcess: "ogcapi"}

func serviceSummary(s catalogue.Service, states map[string]string) ServiceSummary {
	shown := ServiceSummary{ID: s.ID, Title: s.Title, Summary: s.Summary, Keywords: append([]string{}, s.Keywords...),
		Platform:      s.Platform,
		PlatformState: cmp.Or(states[s.Platform], string(dispatch.StateUnknown)), Label: string(s.Label),
		Protocol: protocolOf[s.Label],
		Licence:  optional(s.Licence), Thumbnail: optional(s.Thumbnail), Updated: known(s.Updated),
		StaleSince: known(s.StaleSince)}
	for _, h := range s.Homes() {
		if len(s.Also) > 0 {
			shown.Homes = append(shown.Homes, ServiceHome{h.Platform, cmp.Or(states[h.Platform], string(dispatch.StateUnknown)),
				string(h.Label)})
		}
	}
	if s.Provider.Name != "" {
		shown.Provider = &ServiceProvider{s.Provider.Name, optional(s.Provider.URL)}
	}
	return shown
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
