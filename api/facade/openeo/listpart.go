package openeo

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listPaths match the lists that platforms publish.
var listPaths = regexp.MustCompile(`^/(?:(collections)|(processes)(?:/[^/?]+)?)(?:\?.*)?$`)

// memberAt returns the member that has the resources of the list at a path; "": there is no list.
func memberAt(path string) string {
	m := listPaths.FindStringSubmatch(path)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// fromParameter is the query parameter in the links between the parts of a list. Platforms have parameters of their own
// in the links between their pages.
const fromParameter = "eodispatch:from"

// listPart is the part of a published list that a request asks for.
type listPart struct {
	r           *request
	member      string // that has the resources; "": no list
	limit, from int    // limit 0: all
}

// listPart returns the part of a list that the request asks for by the parameter limit, and by the links to the next
// part.
func (r *request) listPart() (part listPart, err error) {
	part = listPart{r: r, member: memberAt(r.URL.EscapedPath())}
	query := r.URL.Query()
	if part.member == "" {
		return part, nil
	}
	if part.limit, err = pageLimit(query); err != nil {
		return part, err
	}
	if query.Has(fromParameter) {
		if part.from, err = strconv.Atoi(query.Get(fromParameter)); err != nil || part.from < 0 {
			return part, badParameter(fromParameter, "is not one of a link of this list. Follow the links of the list")
		}
	}
	return part, nil
}

// of returns the part of a list. What cannot be read as a list stays as it is.
func (part listPart) of(p dispatch.Publication) dispatch.Publication {
	if part.limit == 0 {
		return p
	}
	var doc object
	var all []json.RawMessage
	if json.Unmarshal(p.At(part.r.root), &doc) != nil || json.Unmarshal(doc[part.member], &all) != nil {
		return p
	}
	begin := min(part.from, len(all))
	end := min(begin+part.limit, len(all))
	text, err := dispatch.Encode(append([]json.RawMessage{}, all[begin:end]...))
	if err != nil {
		return p
	}
	doc[part.member] = text
	if end < len(all) {
		doc["links"] = part.linkTo(end, doc["links"])
	}
	if text, err = dispatch.Encode(doc); err != nil {
		return p
	}
	p.Parts = [][]byte{text}
	return p
}

// linkTo returns links with one to the part of the list that begins at a position, in place of one to the next page of
// the platform, which the last part has.
func (part listPart) linkTo(at int, given json.RawMessage) json.RawMessage {
	var links []json.RawMessage
	_ = json.Unmarshal(given, &links) // a list without links gets this one
	links = slices.DeleteFunc(links, func(l json.RawMessage) bool {
		var known link
		return json.Unmarshal(l, &known) == nil && known.Rel == "next"
	})
	query := part.r.URL.Query()
	query.Set("limit", strconv.Itoa(part.limit))
	query.Set(fromParameter, strconv.Itoa(at))
	next := link{Rel: "next", Href: part.r.root + part.r.URL.EscapedPath() + "?" + query.Encode(),
		Type: "application/json"}
	text, err := dispatch.Encode(next)
	if err == nil {
		links = append(links, text)
	}
	if text, err = dispatch.Encode(links); err != nil {
		return given
	}
	return text
}
