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
	if info, _ := parseStatusInfo(a.Body); info.isJob() {
		return nil, noResultsYet(info.report(), nil)
	}
	return outputsIn(documentOf(a))
}

// outputsIn returns the outputs in a response, in any form that a server gives results.
func outputsIn(d document) ([]dispatch.OutputValue, error) {
	media, params, _ := mime.ParseMediaType(d.header.Get("Content-Type"))
	if strings.HasPrefix(media, "multipart/") && params["boundary"] != "" {
		return outputsInParts(d, params["boundary"])
	}
	raw, isJSON := d.json()
	switch {
	case len(bytes.TrimSpace(d.body)) == 0:
		return outputsInHeader(d), nil
	case isJSON:
		return outputsInDocument(d, raw)
	case d.html():
		return nil, badResults("The platform returned a web page instead of results.")
	case strings.Contains(media, "json"):
		return nil, badResults("The platform declares its results as JSON, but they are not valid JSON, or too large.")
	}
	return []dispatch.OutputValue{{Media: d.header.Get("Content-Type"), Data: d.body}}, nil
}

func outputsInHeader(d document) (all []dispatch.OutputValue) {
	for _, l := range linkHeader(d.header) {
		if l.leadsToResult() {
			all = append(all, dispatch.OutputValue{Name: l.name(), Media: l.media, Link: stac.Resolve(d.at, l.href)})
		}
	}
	return all
}

func outputsInParts(d document, boundary string) (all []dispatch.OutputValue, err error) {
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
		v := dispatch.OutputValue{Name: strings.Trim(part.Header.Get("Content-ID"), "<> "),
			Media: part.Header.Get("Content-Type"), Data: body}
		if v.Name == "" {
			v.Name = part.FormName()
		}
		if at := part.Header.Get("Content-Location"); at != "" && len(bytes.TrimSpace(body)) == 0 {
			v.Link, v.Data = stac.Resolve(d.at, at), nil
		}
		if plain, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body))); err == nil &&
			strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
			v.Data = plain
		}
		all = append(all, v)
	}
}

// outputsInDocument returns the outputs in a results document: a single value, or the outputs by identifier, which some
// servers have in a member outputs or in the one item of a list.
func outputsInDocument(d document, raw json.RawMessage) (all []dispatch.OutputValue, err error) {
	for depth := 0; ; depth++ {
		var m map[string]json.RawMessage
		if kindOf(raw) != '{' || bounds.Entries(raw) > maxMembers || json.Unmarshal(raw, &m) != nil || isOneValue(m) ||
			depth > maxNested {
			return []dispatch.OutputValue{valueOf(d, "", raw)}, nil
		}
		inner := m["outputs"]
		nested := kindOf(inner) == '{' || kindOf(inner) == '['
		if !nested {
			inner = raw
		}
		list := namedValues(inner)
		if nested && len(list) == 1 && list[0].id == "" { // pygeoapi
			raw = list[0].value
			continue
		}
		for i, named := range list {
			if named.id == "" {
				named.id = numbered("result", i, len(list))
			}
			all = append(all, valueOf(d, named.id, named.value))
		}
		return all, nil
	}
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
		v.Media, v.Data, v.Link = text(m["type"]), nil, stac.Resolve(d.at, text(m["href"]))
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
	case isGeoJSON(text(m["type"])):
		v.Media = mediaGeoJSON
	}
	return v
}

// textOf returns what the text of a qualified value stands for: bytes in base64, a JSON text, or itself. Without a
// media type it stays a JSON string.
func textOf(m map[string]json.RawMessage, media string) []byte {
	plain, encoding := text(m["value"]), text(m["encoding"])
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
