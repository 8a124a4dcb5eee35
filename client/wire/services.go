package wire

import (
	"encoding/json"
	"time"
)

// Parameter is one parameter of a service.
type Parameter struct {
	Name        string            `json:"name"`
	Type        string            `json:"type" enum:"datetime,date-interval,bounding-box,polygon,boolean,integer,double,string,array-string,object,array"`
	Optional    bool              `json:"optional"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default" doc:"null: there is no default, or it is null"`
	Options     []json.RawMessage `json:"options" doc:"The only values that the parameter, or each of its elements, may have; empty: any"`

	Schema   json.RawMessage `json:"schema" doc:"JSON Schema, or a list of alternatives, as in the service's document; null: it has none"`
	Minimum  *json.Number    `json:"minimum,omitempty"`
	Maximum  *json.Number    `json:"maximum,omitempty"`
	Nullable bool            `json:"nullable" doc:"Whether null is allowed"`
	Warning  string          `json:"warning,omitempty" doc:"Parts of the schema that the broker does not understand and does not check values against; absent: none"`
}

// ServiceSummary is a service of the catalogue as lists show it.
type ServiceSummary struct {
	ID            string           `json:"id" example:"ndvi_composite"`
	Title         string           `json:"title"`
	Summary       string           `json:"summary" doc:"The first sentences of the description: plain text, at most 300 characters"`
	Keywords      []string         `json:"keywords"`
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

// Platforms returns the names of the platforms that offer the service.
func (s ServiceSummary) Platforms() []string {
	if len(s.Homes) == 0 {
		return []string{s.Platform}
	}
	names := make([]string, len(s.Homes))
	for i, h := range s.Homes {
		names[i] = h.Platform
	}
	return names
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
	Links           []ServiceLink      `json:"links" doc:"Links to web and mail addresses"`
	Cost            ServiceCost        `json:"cost"`
	Endpoint        string             `json:"endpoint"`
	Application     string             `json:"application"`
	Namespace       *string            `json:"namespace" nullable:"true"`
	Parameters      []ServiceParameter `json:"parameters" nullable:"true" doc:"As POST /params returns them. null: see parameters_error"`
	ParametersError *ErrorResponse     `json:"parameters_error" doc:"Why the parameters are not known now"`
	Formats         []ServiceFormat    `json:"formats" nullable:"true" doc:"The output formats that a request can name: those of the process or of its platform, or those that the service's description names. null: not known"`
	Rules           *ServiceRules      `json:"rules" doc:"What the operator of the broker says about requests for it. null: nothing"`
	Example         Object             `json:"example" nullable:"true" doc:"Parameters for which the service gives a result"`
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
	GISDataTypes []string `json:"gis_data_types" doc:"As in openEO: raster, vector, table, pointcloud, other"`
}

// ServiceList is a page of the catalogue.
type ServiceList struct {
	Services  []ServiceSummary `json:"services" doc:"Those with the words of q in their titles come first, then in the order of titles"`
	Next      string           `json:"next,omitempty" doc:"The cursor of the next page; absent on the last page"`
	Total     int              `json:"total" doc:"Services on all pages"`
	Platforms []PlatformCount  `json:"platforms" doc:"The platforms of the services that the request selects, whatever its platform"`
	Keywords  []KeywordCount   `json:"keywords" doc:"The most frequent keywords of the services that the request selects, whatever its keyword; 200 at most"`
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

// ServiceParameter is a parameter of a service of the catalogue.
type ServiceParameter Parameter
