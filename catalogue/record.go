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

// record is a record of type service: https://docs.ogc.org/is/20-004r1/20-004r1.html#clause-record-core. Records in the
// field have members of wrong types; these count as absent.
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

// service returns the service that a record describes. Links are relative to base, which is nil for a file. Errors are
// sentences about the record, without a full stop.
func (r record) service(base *url.URL) (Service, error) {
	p := r.Properties
	switch {
	case r.Type != "Feature" || p.Type == "":
		return Service{}, errors.New("it is not a record: a record is a GeoJSON Feature with properties.type")
	case p.Type != "service":
		return Service{}, fmt.Errorf("its type is %q, and only records of type service are shown",
			clip(plain(p.Type), 100))
	}
	s := Service{
		ID: r.ID, Title: clip(plain(p.Title), mostTitle), Keywords: keywords(p.Keywords),
		Licence:     clip(plain(p.Licence), mostTitle),
		Description: description(p.Description), Provider: r.provider(), Example: example(p.Example),
		Updated: timeOf(p.Updated, p.Created),
		Cost:    Cost{Estimate: p.Cost, Unit: clip(plain(firstText(p.CostUnit, p.CostUnits)), mostTitle)},
	}
	for _, f := range p.Formats[:min(len(p.Formats), mostFormats)] {
		if name := clip(plain(f.Name), mostTitle); name != "" {
			s.Formats = append(s.Formats, name)
		}
	}
	s.Links = links(r.Links, base)
	s.Thumbnail = thumbnail(s.Links)
	placements, err := r.placements(s.Links)
	if err != nil {
		return s, err
	}
	s.Label, s.Service, s.Also = placements[0].Label, placements[0].Service, placements[1:]
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

// placements returns where a record's service is. The links service and application belong together in the order in
// which they are written; of one with a process of OGC API - Processes, the link application can be absent. All but the
// first are left out where it is not clear which belong together.
func (r record) placements(all []Link) (placements []Placement, err error) {
	services, applications := linksOf(all, "service"), linksOf(all, "application")
	n := max(1, len(services))
	if len(applications) > 0 && len(applications) != n {
		n = 1
	}
	for i := range n {
		h, fault := r.placement(at(services, i), at(applications, i))
		switch {
		case fault == nil:
			placements = append(placements, h)
		case i == 0:
			return nil, fault
		}
	}
	return placements, nil
}

// placement returns the protocol of a record's service, and where it is.
func (r record) placement(service, application Link) (h Placement, err error) {
	switch h.Label = r.label(application); {
	case h.Label == "":
		return h, errors.New("its conformsTo names neither openEO nor OGC API - Processes")
	case service.Href == "":
		return h, errors.New("it has no link service with the absolute address of a platform")
	case h.Label == dispatch.OGCProcess:
		h.Service = processAt(service.Href)
	case application.Href == "":
		return h, errors.New("it has no link application with the absolute address of a process")
	default:
		h.Service = dispatch.Service{Endpoint: service.Href, Application: application.Href}
	}
	return h, nil
}

// label returns the protocol of a record's service; "" if it is not known. Those of a record with both protocols are
// told apart by their links.
func (r record) label(application Link) dispatch.Label {
	var named []dispatch.Label
	for _, name := range r.ConformsTo {
		switch {
		case strings.Contains(name, "openeo"):
			named = append(named, dispatch.OpenEO)
		case strings.Contains(name, "ogc-api-processes"), strings.Contains(name, "ogcapi-processes"):
			named = append(named, dispatch.OGCProcess)
		}
	}
	isOpenEO := strings.HasPrefix(application.Type, "application/vnd.openeo+json")
	switch {
	case slices.Contains(named, dispatch.OpenEO) && slices.Contains(named, dispatch.OGCProcess) && !isOpenEO:
		return dispatch.OGCProcess
	case isOpenEO && (len(named) == 0 || slices.Contains(named, dispatch.OpenEO)):
		return dispatch.OpenEO
	case len(named) > 0:
		return named[0]
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

// provider returns who offers a record's service: whom the link says, or the publisher, or the first organisation. The
// address is that of the organisation of the same name, if it has one.
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

func linksOf(all []Link, rel string) (found []Link) {
	for _, l := range all {
		if l.Rel == rel {
			found = append(found, l)
		}
	}
	return found
}

// at returns the link with an index; zero if there are fewer.
func at(links []Link, i int) Link {
	if i >= len(links) {
		return Link{}
	}
	return links[i]
}

func thumbnail(all []Link) string {
	href := at(linksOf(all, "thumbnail"), 0).Href
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
