// Package catalogue holds the services that people can pick: from records of services (OGC API - Records, as the APEx
// catalogue publishes them) in folders and at URLs, and from the configuration.
//
// Records are written by others. What this package returns of them is safe to show: texts have no control characters,
// links lead to web or mail addresses, and descriptions are sanitised HTML.
package catalogue

import (
	"encoding/json"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Service is a service that people can pick. Texts are plain unless their comments say otherwise.
type Service struct {
	ID          string
	Title       string
	Summary     string // the first sentences of the description
	Description string // Markdown, as given
	HTML        string // the description as sanitised HTML
	Keywords    []string
	Provider    Provider
	Licence     string
	Thumbnail   string // URL; "": none
	Links       []Link
	Cost        Cost
	Formats     []string        // names of output formats
	Example     json.RawMessage // an object of parameters; nil: none
	Updated     time.Time       // zero: not known

	// StaleSince is when the description was last read, if it could not be read again since; zero: it is current.
	StaleSince time.Time

	Label    dispatch.Label
	Service  dispatch.Service
	Platform string // name of the configured platform

	// Also are the other platforms that offer the service, each once. A request that names the service by its id can
	// run at any of them.
	Also []Placement
}

// Placement is a platform that offers a service, and what the service is called there.
type Placement struct {
	Label    dispatch.Label
	Service  dispatch.Service
	Platform string // name of the configured platform
}

// Placements returns the platforms that offer a service, in the order in which they were written.
func (s Service) Placements() []Placement {
	return append([]Placement{{s.Label, s.Service, s.Platform}}, s.Also...)
}

// Provider is who offers a service.
type Provider struct{ Name, URL string }

// Link is a link of a service.
type Link struct{ Rel, Href, Title, Type string }

// Cost is what a service costs, in the words of its provider.
type Cost struct {
	Estimate *float64 // nil: not known
	Unit     string   // "platform credits per km²"
	Note     string
}

// Rejection is a record that is not shown to users, with the reason for the operator.
type Rejection struct {
	Address string // URL or file of the record
	ID      string // "": not known
	Reason  string // a sentence without a full stop
}
