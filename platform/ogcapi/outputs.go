package ogcapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// Outputs implements [dispatch.ProcessDescriber]. No link is followed.
func (p *Platform) Outputs(ctx context.Context, t dispatch.Token, ref dispatch.Ref) ([]dispatch.OutputValue, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	a, err := p.readResults(ctx, t, p.job(ref, "results"))
	if err != nil {
		return nil, p.noResults(ctx, t, ref, a, err)
	}
	if info := parseStatusInfo(a.Body); info.isJob() {
		return nil, noResultsYet(info.report(), nil)
	}
	d := documentOf(a)
	outputs, err := outputsIn(d)
	var all []dispatch.OutputValue
	for _, o := range outputs {
		switch {
		case o.href != "":
			all = append(all, dispatch.OutputValue{Name: o.name, Media: o.media, Link: stac.Resolve(d.at, o.href)})
		case o.raw != nil:
			all = append(all, valueOf(d, o.name, o.raw))
		default:
			all = append(all, dispatch.OutputValue{Name: o.name, Media: o.media, Data: o.data})
		}
	}
	return all, err
}

// output is one output in a response: a link, JSON, or bytes of the link's media type.
type output struct {
	link
	name string
	raw  json.RawMessage
	data []byte
}

// outputsIn returns the outputs in a response, in any form that a server gives results. A name is "" if there is one
// output, which has none.
func outputsIn(d document) (all []output, err error) {
	media, params, _ := mime.ParseMediaType(d.header.Get("Content-Type"))
	if strings.HasPrefix(media, "multipart/") && params["boundary"] != "" {
		return outputsInParts(d, params["boundary"])
	}
	raw, isJSON := d.json()
	switch {
	case len(bytes.TrimSpace(d.body)) == 0: // results by reference
		for _, l := range linkHeader(d.header) {
			if l.leadsToResult() {
				all = append(all, output{link: l, name: l.name()})
			}
		}
		return all, nil
	case isJSON:
		return outputsInDocument(raw, "", 0)
	case d.html():
		return nil, badResults("The platform returned a web page instead of results.")
	case strings.Contains(media, "json"):
		if err := upstream.Bounded(d.body); err != nil {
			return nil, badResults("The platform's results have " + err.Error() + ".")
		}
		return nil, badResults("The platform declares its results as JSON, but they are not valid JSON.")
	}
	return []output{{link: link{media: d.header.Get("Content-Type")}, data: d.body}}, nil
}

// outputsInParts returns the outputs in a multipart/related response: one part for each.
func outputsInParts(d document, boundary string) (all []output, err error) {
	for r := multipart.NewReader(bytes.NewReader(d.body), boundary); ; {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) && len(all) > 0 {
			return all, nil
		}
		var body []byte
		if err == nil {
			body, err = io.ReadAll(part)
		}
		if err == nil {
			err = bounds.ResultsEntries.Check(int64(len(all)))
		}
		if err != nil {
			return nil, badResults("The platform's results are a multipart response that cannot be read.")
		}
		o := output{link: link{media: part.Header.Get("Content-Type")}, data: body,
			name: cmp.Or(strings.Trim(part.Header.Get("Content-ID"), "<> "), part.FormName())}
		if len(bytes.TrimSpace(body)) == 0 {
			o.href = part.Header.Get("Content-Location")
		}
		if plain, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body))); err == nil &&
			strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
			o.data = plain
		}
		all = append(all, o)
	}
}

// outputsInDocument returns the outputs in a results document: a single value, or the outputs by identifier, which some
// servers have in a member outputs, or in an item without identifier of a list of outputs, as pygeoapi does.
func outputsInDocument(raw json.RawMessage, name string, depth int) (all []output, err error) {
	var m map[string]json.RawMessage
	if kindOf(raw) != '{' || bounds.Entries(raw) > maxMembers || json.Unmarshal(raw, &m) != nil || isOneValue(m) ||
		depth > maxNested {
		return []output{{name: name, raw: raw}}, nil
	}
	if inner := m["outputs"]; depth == 0 && (kindOf(inner) == '{' || kindOf(inner) == '[') {
		raw = inner
	}
	if err := bounds.ResultsEntries.Check(bounds.Entries(raw)); err != nil {
		return nil, badResults("The platform's results have " + err.Error() + ".")
	}
	list := namedValues(raw)
	for i, one := range list {
		found := []output{{name: one.id, raw: one.value}}
		if one.id == "" {
			if found, err = outputsInDocument(one.value, numbered(name, i, len(list)), depth+1); err != nil {
				return nil, err
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

// valueOf returns one value of a results document.
func valueOf(d document, name string, raw json.RawMessage) dispatch.OutputValue {
	v := dispatch.OutputValue{Name: name, Inline: raw, Media: mediaJSON, Data: raw}
	var m map[string]json.RawMessage
	if kindOf(raw) != '{' || json.Unmarshal(raw, &m) != nil {
		return v
	}
	switch {
	case isLink(m):
		v.Media, v.Data, v.Link = stac.Text(m["type"]), nil, stac.Resolve(d.at, stac.Text(m["href"]))
		m["href"] = marshal(v.Link)
		v.Inline = marshal(m)
	case m["value"] != nil && only(m, qualifiers...):
		v.Media, v.Data = mediaOf(m), m["value"]
		if kindOf(m["value"]) != '"' {
			v.Media = orJSON(v.Media)
			break
		}
		v.Data = textOf(m, v.Media)
		v.Media = cmp.Or(v.Media, mediaJSON)
	case isGeoJSON(stac.Text(m["type"])):
		v.Media = mediaGeoJSON
	}
	return v
}

// textOf returns what the text of a qualified value stands for: bytes in base64, a JSON text, or itself. Without a
// media type it stays a JSON string.
func textOf(m map[string]json.RawMessage, media string) []byte {
	plain, encoding := stac.Text(m["value"]), stac.Text(m["encoding"])
	if strings.EqualFold(encoding, "base64") || encoding == "" && media != "" && isBinary(media) {
		if data, err := base64.StdEncoding.DecodeString(plain); err == nil {
			return data
		}
	}
	document := upstream.Finite([]byte(plain))
	if media == "" || strings.Contains(media, "json") && !json.Valid(document) {
		return m["value"]
	}
	return document
}
