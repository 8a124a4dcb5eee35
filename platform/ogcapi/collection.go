package ogcapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/url"
	"path"
	"strings"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/stac"
)

// follow reads the document at an absolute URL.
type follow func(href string) (document, error)

const (
	maxFollowed = 32  // documents read for one result
	maxNested   = 8   // depth of values within values, and of links from document to document
	maxMembers  = 200 // members of an object that is taken for outputs
)

// toCollection converts the result of a process into a valid STAC Collection (version 1.0.0, or the platform's). The Collection
// is never empty: a value that is not STAC becomes an asset, and no value at all is BadUpstream. Links are followed where they
// may lead to STAC; a temporary failure to read one fails the whole conversion.
func toCollection(id string, d document, read follow) (json.RawMessage, error) {
	g := &gathering{id: id, read: read, left: maxFollowed, size: int64(len(d.body)), seen: map[string]bool{}, assets: map[string]json.RawMessage{}, next: map[string]int{}}
	if err := g.document(d); err != nil {
		return nil, err
	}
	return g.collection()
}

// gathering collects the parts of a Collection.
type gathering struct {
	id     string
	read   follow
	left   int
	size   int64                      // bytes of the documents read
	count  int64                      // assets, links and features
	seen   map[string]bool            // links that were followed, and whether their document was used
	base   map[string]json.RawMessage // the first STAC Collection found, which is the base of the result
	assets map[string]json.RawMessage
	next   map[string]int // the next number for assets of the same name
	links  []json.RawMessage
	extent stac.Extent
}

// value is one value to be added to a gathering.
type value struct {
	name  string
	raw   json.RawMessage
	media string // media type of the value, if it is bytes or a text
	at    *url.URL
	depth int
}

func (v value) with(name string, raw json.RawMessage) value {
	if name == "" {
		name = v.name
	}
	return value{name: name, raw: raw, at: v.at, depth: v.depth + 1}
}

// spend counts the entries of arrays and objects before they are decoded.
func (g *gathering) spend(all ...json.RawMessage) error {
	for _, raw := range all {
		g.count += budget.Entries(raw)
	}
	if err := budget.ResultsEntries.Check(g.count); err != nil {
		return badResults("The platform's results have " + err.Error() + ".")
	}
	return nil
}

func (g *gathering) document(d document) error {
	media, params, _ := mime.ParseMediaType(d.header.Get("Content-Type"))
	if strings.HasPrefix(media, "multipart/") && params["boundary"] != "" {
		return g.parts(d, params["boundary"])
	}
	raw, ok := d.json()
	switch {
	case len(bytes.TrimSpace(d.body)) == 0:
		return g.headerLinks(d)
	case ok:
		return g.whole(value{name: "result", raw: raw, at: d.at})
	case d.html():
		return badResults("The platform returned a web page instead of results.")
	case strings.Contains(media, "json") && d.bounded() != nil:
		return badResults("The platform's results have " + d.bounded().Error() + ".")
	case strings.Contains(media, "json"):
		return badResults("The platform declares its results as JSON, but they are not valid JSON.")
	}
	g.bytes("result", d.header.Get("Content-Type"), d.body)
	return nil
}

func badResults(text string) error {
	return &dispatch.Error{Kind: dispatch.BadUpstream, Op: opResults, Text: text}
}

// headerLinks takes results by reference: a response without a body, whose Link headers lead to the results.
func (g *gathering) headerLinks(d document) error {
	for _, l := range linkHeader(d.header) {
		if !l.leadsToResult() {
			continue
		}
		link := map[string]json.RawMessage{"href": marshal(l.href)}
		if l.media != "" {
			link["type"] = marshal(l.media)
		}
		if l.title != "" {
			link["title"] = marshal(l.title)
		}
		if err := g.link(link, value{name: l.name(), at: d.at}); err != nil {
			return err
		}
	}
	return nil
}

// name returns the name of a link's output. By version 1.0 the relation may be the output's identifier.
func (l headerLink) name() string {
	if l.rel != "" && l.rel != "item" && !strings.Contains(l.rel, "/") {
		return l.rel
	}
	return lastSegment(l.href)
}

func lastSegment(href string) string {
	u, err := url.Parse(href)
	if name := ""; err == nil && u.Path != "" {
		name = path.Base(u.Path)
		if name != "/" && name != "." {
			return name
		}
	}
	return "result"
}

// parts takes a multipart/related response: one part for each output.
func (g *gathering) parts(d document, boundary string) error {
	r := multipart.NewReader(bytes.NewReader(d.body), boundary)
	for {
		part, err := r.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return badResults("The platform's results are a multipart response that cannot be read.")
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return badResults("The platform's results are a multipart response that cannot be read.")
		}
		if err := g.part(part, document{at: d.at, header: map[string][]string(part.Header), body: body}); err != nil {
			return err
		}
	}
}

func (g *gathering) part(p *multipart.Part, d document) error {
	name := strings.Trim(p.Header.Get("Content-ID"), "<> ")
	if name == "" {
		name = p.FormName()
	}
	if name == "" {
		name = "result"
	}
	if at := p.Header.Get("Content-Location"); at != "" && len(bytes.TrimSpace(d.body)) == 0 {
		link := map[string]json.RawMessage{"href": marshal(at), "type": marshal(d.media())}
		return g.link(link, value{name: name, at: d.at})
	}
	if strings.EqualFold(p.Header.Get("Content-Transfer-Encoding"), "base64") {
		if plain, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(d.body))); err == nil {
			d.body = plain
		}
	}
	if raw, ok := d.json(); ok && len(d.body) > 0 {
		return g.add(value{name: name, raw: raw, media: d.media(), at: d.at, depth: 1})
	}
	g.bytes(name, d.header.Get("Content-Type"), d.body)
	return nil
}

// whole takes the results document: a single value, or the outputs by identifier.
func (g *gathering) whole(v value) error {
	var m map[string]json.RawMessage
	if kindOf(v.raw) != '{' {
		return g.add(v)
	}
	if err := g.spend(v.raw); err != nil {
		return err
	}
	if json.Unmarshal(v.raw, &m) != nil {
		return g.add(v)
	}
	if outputs, ok := m["outputs"]; ok && (kindOf(outputs) == '{' || kindOf(outputs) == '[') && !isOneValue(m) {
		return g.all(v, outputs)
	}
	return g.unnamed(v)
}

// isOneValue reports whether an object is one value in a known form, and not several values by identifier.
func isOneValue(m map[string]json.RawMessage) bool {
	return isLink(m) || m["value"] != nil && only(m, qualifiers...) || isGeoJSON(text(m["type"])) || isSTAC(m)
}

// qualifiers are the members of a qualified value, including the identifier in lists of outputs.
var qualifiers = []string{"value", "mediaType", "encoding", "schema", "format", "id", "title", "description", "type", "mimeType"}

func isSTAC(m map[string]json.RawMessage) bool {
	switch text(m["type"]) {
	case "Collection":
		return m["stac_version"] != nil || m["extent"] != nil
	case "Catalog", "Feature":
		return m["stac_version"] != nil
	case "FeatureCollection":
		return m["stac_version"] != nil || holdsResults(m["features"])
	}
	return false
}

func (g *gathering) all(v value, outputs json.RawMessage) error {
	if err := g.spend(outputs); err != nil {
		return err
	}
	list := namedValues(outputs)
	for i, o := range list {
		take := g.add
		if o.id == "" {
			o.id, take = numbered(v.name, i, len(list)), g.unnamed
		}
		if err := take(v.with(o.id, o.value)); err != nil {
			return err
		}
	}
	return nil
}

// numbered returns the name of item i of a list of n.
func numbered(name string, i, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// unnamed takes an item without identifier of a list of outputs. Pygeoapi puts all outputs of a process, by identifier, into
// one such item.
func (g *gathering) unnamed(v value) error {
	var m map[string]json.RawMessage
	if budget.Entries(v.raw) > maxMembers || json.Unmarshal(v.raw, &m) != nil || m == nil || isOneValue(m) || v.depth > maxNested {
		return g.add(v)
	}
	return g.all(v, v.raw)
}

// add adds one value.
func (g *gathering) add(v value) error {
	switch kindOf(v.raw) {
	case '{':
		var m map[string]json.RawMessage
		if v.depth <= maxNested && json.Unmarshal(v.raw, &m) == nil {
			return g.object(m, v)
		}
	case '[':
		if v.depth <= maxNested && holdsLinks(v.raw) {
			return g.list(v)
		}
	case '"':
		return g.text(v)
	case 'n':
		if v.depth == 0 {
			return nil
		}
	}
	g.bytes(v.name, orJSON(v.media), v.raw)
	return nil
}

func orJSON(media string) string {
	if strings.Contains(media, "json") {
		return media
	}
	return mediaJSON
}

func (g *gathering) object(m map[string]json.RawMessage, v value) error {
	known := isSTAC(m)
	if known {
		if err := g.spend(m["assets"], m["links"], m["features"]); err != nil {
			return err
		}
	}
	switch kind := text(m["type"]); {
	case known && kind == "Collection":
		g.stacCollection(m, v)
	case known && kind == "Catalog":
		return g.catalog(m, v)
	case known && kind == "Feature":
		return g.feature(m, v, "")
	case known && kind == "FeatureCollection":
		return g.features(m, v)
	case isLink(m):
		return g.link(m, v)
	case m["value"] != nil && only(m, qualifiers...):
		inner := v.with("", m["value"])
		if id := identifier(m["id"]); v.depth == 0 && id != "" {
			inner.name = id
		}
		inner.media = mediaOf(m)
		return g.add(inner)
	case isGeoJSON(kind):
		g.extent.GeoJSON(v.raw)
		g.bytes(v.name, mediaGeoJSON, v.raw)
	default:
		g.bytes(v.name, orJSON(v.media), v.raw)
	}
	return nil
}

// mediaOf returns the media type of a qualified value, in the spellings of several versions.
func mediaOf(m map[string]json.RawMessage) string {
	if media := text(m["mediaType"]); media != "" {
		return media
	}
	var in map[string]json.RawMessage
	for _, name := range []string{"format", "schema"} {
		if json.Unmarshal(m[name], &in) == nil {
			for _, name := range []string{"mediaType", "contentMediaType"} {
				if media := text(in[name]); media != "" {
					return media
				}
			}
		}
	}
	return text(m["mimeType"])
}

// holdsLinks reports whether an array contains items to look into: links, STAC, or qualified values.
func holdsLinks(raw json.RawMessage) bool {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return false
	}
	kind, holds := byte(0), false
	for _, item := range items {
		switch is := kindOf(item); {
		case is == 'n':
			continue
		case kind != 0 && is != kind, is != '{' && is != '"': // a list of values
			return false
		default:
			kind = is
		}
		holds = holds || leads(item)
	}
	return holds
}

// leads reports whether to look into an item of an array.
func leads(item json.RawMessage) bool {
	var m map[string]json.RawMessage
	if kindOf(item) == '"' {
		return stac.IsAddress(text(item))
	}
	return json.Unmarshal(item, &m) == nil && isOneValue(m)
}

func (g *gathering) list(v value) error {
	if err := g.spend(v.raw); err != nil {
		return err
	}
	items := namedValues(v.raw)
	for i, item := range items {
		if item.id == "" {
			item.id = numbered(v.name, i, len(items))
		}
		if err := g.add(v.with(item.id, item.value)); err != nil {
			return err
		}
	}
	return nil
}

// text adds a string: a URL, base64 bytes if the media type says so, or a literal.
func (g *gathering) text(v value) error {
	s := text(v.raw)
	switch {
	case stac.IsAddress(s):
		link := map[string]json.RawMessage{"href": marshal(s)}
		if v.media != "" && !strings.HasPrefix(v.media, "text/") {
			link["type"] = marshal(v.media)
		}
		return g.link(link, v)
	case strings.HasPrefix(s, "data:"):
		g.asset(v.name, map[string]string{"href": s})
		return nil
	case strings.Contains(v.media, "json") && json.Valid([]byte(s)) && v.depth <= maxNested:
		return g.add(v.with("", json.RawMessage(s)))
	case v.media != "" && isBinary(v.media):
		if plain, err := base64.StdEncoding.DecodeString(s); err == nil {
			g.bytes(v.name, v.media, plain)
			return nil
		}
	}
	media := v.media
	if media == "" || strings.Contains(media, "json") {
		media = "text/plain; charset=utf-8"
	}
	g.bytes(v.name, media, []byte(s))
	return nil
}

// link adds a reference. Its target becomes part of the results if it is STAC, and an asset otherwise.
func (g *gathering) link(m map[string]json.RawMessage, v value) error {
	href, media := stac.Resolve(v.at, text(m["href"])), text(m["type"])
	if mayBeSTAC(href, media) && g.left > 0 && v.depth <= maxNested {
		taken, err := g.followed(href, v)
		if taken || err != nil {
			return err
		}
	}
	asset := map[string]string{"href": href}
	if media != "" {
		asset["type"] = media
	}
	if title := text(m["title"]); title != "" {
		asset["title"] = title
	}
	g.asset(v.name, asset)
	return nil
}

// mayBeSTAC reports whether a link may lead to STAC: JSON that can be read over HTTP.
func mayBeSTAC(href, media string) bool {
	u, err := url.Parse(href)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	base, _, _ := mime.ParseMediaType(media)
	ext := strings.ToLower(path.Ext(u.Path))
	return base == mediaJSON || base == mediaGeoJSON ||
		base == "" && (ext == ".json" || ext == ".geojson" || strings.Contains(u.Path, "/collections/"))
}

// followed reads the target of a link and adds it if it is STAC. A target that cannot be read, other than temporarily, is not
// added.
func (g *gathering) followed(href string, v value) (taken bool, err error) {
	if taken, before := g.seen[href]; before { // documents may link to themselves, and to each other
		return taken && !g.empty(), nil
	}
	g.left--
	g.seen[href] = false
	d, err := g.read(href)
	switch {
	case dispatch.Is(err, dispatch.SignInRequired), err != nil && passes(err) && !dispatch.Is(err, dispatch.NotFound):
		return false, err
	case err != nil:
		return false, nil
	}
	if g.size += int64(len(d.body)); budget.ResultsBytes.Check(g.size) != nil {
		g.left = 0 // other links are not followed any more
		return false, nil
	}
	raw, ok := d.json()
	var m map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &m) != nil || !isSTAC(m) {
		return false, nil
	}
	g.seen[href] = true
	next := v.with("", raw)
	next.at = d.at
	return true, g.object(m, next)
}

// bytes adds data as an asset with a data URI (RFC 2397).
func (g *gathering) bytes(name, media string, data []byte) {
	if media == "" {
		media = "application/octet-stream"
	}
	base, params, err := mime.ParseMediaType(media)
	if err != nil {
		base, params = "application/octet-stream", nil
	}
	full := mime.FormatMediaType(base, params)
	g.asset(name, map[string]string{
		"href": "data:" + strings.ReplaceAll(full, " ", "") + ";base64," + base64.StdEncoding.EncodeToString(data),
		"type": full,
	})
}

func (g *gathering) asset(name string, asset map[string]string) {
	described := stac.Object{}
	for member, s := range asset {
		described[member] = marshal(s)
	}
	stac.Describe(described)
	g.keep(name, marshal(described))
}

// keep adds an asset under a unique key.
func (g *gathering) keep(name string, asset json.RawMessage) {
	if name == "" {
		name = "result"
	}
	key := name
	for n := max(2, g.next[name]); g.assets[key] != nil; n++ {
		key = fmt.Sprintf("%s-%d", name, n)
		g.next[name] = n + 1 // lower numbers are taken
	}
	g.assets[key] = asset
}

func (g *gathering) empty() bool { return g.base == nil && len(g.assets) == 0 && len(g.links) == 0 }

// collection encodes the gathered parts.
func (g *gathering) collection() (json.RawMessage, error) {
	if g.empty() {
		return nil, badResults("The platform returned no results.")
	}
	c := g.base
	if c == nil {
		c = map[string]json.RawMessage{}
	}
	stac.Complete(c, g.id, g.extent)
	if len(g.assets) > 0 {
		assets := map[string]json.RawMessage{}
		if json.Unmarshal(c["assets"], &assets) != nil || assets == nil {
			assets = map[string]json.RawMessage{}
		}
		maps.Copy(assets, g.assets)
		c["assets"] = marshal(assets)
	}
	if len(g.links) > 0 {
		var links []json.RawMessage
		_ = json.Unmarshal(c["links"], &links) // Complete has validated the links
		c["links"] = marshal(append(links, g.links...))
	}
	return marshal(c), nil
}
