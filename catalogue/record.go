package catalogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// record is a record of type service: https://docs.ogc.org/is/20-004r1/20-004r1.html#clause-record-core. Records in the field have members
// of wrong types; these count as absent.
type record struct {
	ID         string   `json:"id"`
	Type       string   `json:"type"`
	ConformsTo []string `json:"conformsTo"`
	Properties struct {
		Type        string          `json:"type"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Keywords    []string        `json:"keywords"`
		Licence     string          `json:"license"`
		Created     string          `json:"created"`
		Updated     string          `json:"updated"`
		Cost        *float64        `json:"cost_estimate"`
		CostUnit    string          `json:"cost_unit"`
		CostUnits   string          `json:"cost_units"` // as some records spell it
		Example     json.RawMessage `json:"example"`
		Publisher   struct {
			Name string `json:"name"`
		} `json:"publisher"`
		Formats []struct {
			Name string `json:"name"`
		} `json:"formats"`
		Contacts []contact `json:"contacts"`
	} `json:"properties"`
	Links []recordLink `json:"links"`
}

type contact struct {
	Organization string       `json:"organization"`
	Links        []recordLink `json:"links"`
}

type recordLink struct {
	Rel   string `json:"rel"`
	Href  string `json:"href"`
	Title string `json:"title"`
	Type  string `json:"type"`
}

// decode decodes JSON and ignores members of wrong types.
func decode(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		return nil
	}
	return err
}

// service returns the service that a record describes. Links are relative to base, which is nil for a file. Errors are sentences about the
// record, without a full stop.
func (r record) service(base *url.URL) (Service, error) {
	p := r.Properties
	switch {
	case r.Type != "Feature" || p.Type == "":
		return Service{}, errors.New("it is no record: a record is a GeoJSON Feature with properties.type")
	case p.Type != "service":
		return Service{}, fmt.Errorf("its type is %q, and only records of type service are shown", clip(plain(p.Type), 100))
	}
	s := Service{
		ID: r.ID, Title: clip(plain(p.Title), mostTitle), Keywords: keywords(p.Keywords), Licence: clip(plain(p.Licence), mostTitle),
		Description: description(p.Description), Provider: r.provider(), Example: example(p.Example), Updated: timeOf(p.Updated, p.Created),
		Cost: Cost{Estimate: p.Cost, Unit: clip(plain(firstText(p.CostUnit, p.CostUnits)), mostTitle)},
	}
	for _, f := range p.Formats[:min(len(p.Formats), mostFormats)] {
		if name := clip(plain(f.Name), mostTitle); name != "" {
			s.Formats = append(s.Formats, name)
		}
	}
	s.Links = links(r.Links, base)
	s.Thumbnail = thumbnail(s.Links)
	var err error
	if s.Label, s.Service, err = r.application(s.Links); err != nil {
		return s, err
	}
	return s, s.check()
}

// check returns what is wrong with a service that must not be shown, and completes its texts.
func (s *Service) check() error {
	if err := CheckID(s.ID); err != nil {
		return err
	}
	if s.Title == "" {
		s.Title = s.ID
	}
	s.HTML, s.Summary = render(s.Description)
	return nil
}

// mostID is the maximum length of an id in bytes.
const mostID = 200

// CheckID returns an error unless an id can be the id of a service: it is part of paths.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("it has no id")
	case len(id) > mostID:
		return fmt.Errorf("its id is longer than %d bytes", mostID)
	case id == "." || id == ".." || plain(id) != id || strings.ContainsAny(id, ` /\?#%`):
		return errors.New(`its id has spaces, control characters or one of / \ ? # %`)
	}
	return nil
}

// application returns the protocol of a record's service, and where it is.
func (r record) application(all []Link) (dispatch.Label, dispatch.Service, error) {
	service, application := linkOf(all, "service"), linkOf(all, "application")
	label := r.label(application)
	switch {
	case label == "":
		return "", dispatch.Service{}, errors.New("its conformsTo names neither openEO nor OGC API - Processes")
	case service.Href == "":
		return "", dispatch.Service{}, errors.New("it has no link service with the absolute address of a platform")
	case label == dispatch.OGCProcess:
		return label, processAt(service.Href), nil
	case application.Href == "":
		return "", dispatch.Service{}, errors.New("it has no link application with the absolute address of a process")
	}
	return label, dispatch.Service{Endpoint: service.Href, Application: application.Href}, nil
}

// label returns the protocol of a record's service; "" if it is not known.
func (r record) label(application Link) dispatch.Label {
	for _, name := range r.ConformsTo {
		switch {
		case strings.Contains(name, "openeo"):
			return dispatch.OpenEO
		case strings.Contains(name, "ogc-api-processes"), strings.Contains(name, "ogcapi-processes"):
			return dispatch.OGCProcess
		}
	}
	if strings.HasPrefix(application.Type, "application/vnd.openeo+json") {
		return dispatch.OpenEO
	}
	return ""
}

// processAt splits the address of an OGC process into the endpoint and the process.
func processAt(href string) dispatch.Service {
	if at := strings.LastIndex(href, "/processes/"); at > 0 {
		return dispatch.Service{Endpoint: href[:at], Application: href[at+len("/processes/"):]}
	}
	return dispatch.Service{Endpoint: href, Application: href}
}

// provider returns who offers a record's service: whom the link says, or the publisher, or the first organisation. The address is that of
// the organisation of the same name, if it has one.
func (r record) provider() Provider {
	names := []string{linkTitle(r.Links, "provider"), r.Properties.Publisher.Name}
	for _, c := range r.Properties.Contacts {
		names = append(names, c.Organization)
	}
	p := Provider{Name: clip(plain(firstText(names...)), mostTitle)}
	for _, c := range r.Properties.Contacts {
		if l := links(c.Links, nil); p.URL == "" && p.Name == clip(plain(c.Organization), mostTitle) && len(l) > 0 {
			p.URL = l[0].Href
		}
	}
	return p
}

func linkTitle(all []recordLink, rel string) string {
	i := slices.IndexFunc(all, func(l recordLink) bool { return l.Rel == rel })
	if i < 0 {
		return ""
	}
	return all[i].Title
}

func linkOf(all []Link, rel string) Link {
	i := slices.IndexFunc(all, func(l Link) bool { return l.Rel == rel })
	if i < 0 {
		return Link{}
	}
	return all[i]
}

func thumbnail(all []Link) string {
	href := linkOf(all, "thumbnail").Href
	if strings.HasPrefix(href, "mailto:") {
		return ""
	}
	return href
}

func timeOf(texts ...string) time.Time {
	for _, text := range texts {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t.UTC()
		}
		if t, err := time.Parse(time.DateOnly, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// example returns an object of parameters; nil if it is none, or too large.
func example(raw json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if len(raw) > mostDescription || json.Unmarshal(raw, &members) != nil || members == nil {
		return nil
	}
	return raw
}
