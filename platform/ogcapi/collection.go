package ogcapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// follow reads the document at an absolute URL.
type follow func(href string) (document, error)

const (
	maxFollowed = 32  // documents read for one result
	maxNested   = 8   // depth of values within values, and of links from document to document
	maxMembers  = 200 // members of an object that is taken for outputs
)

// toCollection converts the result of a process into a valid STAC Collection (version 1.0.0, or the platform's). The
// Collection is never empty: a value that is not STAC becomes an asset, and no value at all is BadUpstream. Links are
// followed where they may lead to STAC; a temporary failure to read one fails the whole conversion. expect is called
// for several that will be read.
func toCollection(id string, d document, expect func(hrefs []string), read follow) (json.RawMessage, error) {
	g := &collector{id: id, expect: expect, read: read, left: maxFollowed, size: int64(len(d.body)),
		seen: map[string]bool{}, assets: map[string]json.RawMessage{}, next: map[string]int{}}
	if err := g.addDocument(d); err != nil {
		return nil, err
	}
	return g.collection()
}

type collector struct {
	id     string
	expect func(hrefs []string)
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

// countEntries counts the entries of arrays and objects before they are decoded.
func (g *collector) countEntries(all ...json.RawMessage) error {
	for _, raw := range all {
		g.count += bounds.Entries(raw)
	}
	if err := bounds.ResultsEntries.Check(g.count); err != nil {
		return badResults("The platform's results have " + err.Error() + ".")
	}
	return nil
}

func (g *collector) addDocument(d document) error {
	outputs, err := outputsIn(d)
	if err != nil {
		return err
	}
	g.count += int64(len(outputs))
	for _, o := range outputs {
		v := value{name: cmp.Or(o.name, "result"), raw: o.raw, at: d.at}
		switch {
		case o.href != "":
			err = g.addLink(o.link, v)
		case o.raw != nil:
			if len(o.raw) < len(d.body) {
				v.depth = 1
			}
			err = g.add(v)
		default:
			err = g.addData(o, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addData adds bytes: a part of a response, which may be JSON, or the whole.
func (g *collector) addData(o output, v value) error {
	d := document{header: http.Header{"Content-Type": {o.media}}, body: upstream.Finite(o.data)}
	if raw, ok := d.json(); ok && len(raw) > 0 {
		return g.add(value{name: v.name, raw: raw, media: d.media(), at: v.at, depth: 1})
	}
	g.addBytes(v.name, o.media, o.data)
	return nil
}

func badResults(text string) error {
	return &dispatch.Error{Kind: dispatch.BadUpstream, Op: opResults, Text: text}
}

// name returns the name of a link's output. By version 1.0 the relation may be the output's identifier.
func (l link) name() string {
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

// isOneValue reports whether an object is one value in a known form, and not several values by identifier.
func isOneValue(m map[string]json.RawMessage) bool {
	return isLink(m) || m["value"] != nil && only(m, qualifiers...) || isGeoJSON(stac.Text(m["type"])) || isSTAC(m)
}

// qualifiers are the members of a qualified value, including the identifier in lists of outputs.
var qualifiers = []string{"value", "mediaType", "encoding", "schema", "format", "id", "title", "description", "type",
	"mimeType"}

func isSTAC(m map[string]json.RawMessage) bool {
	switch stac.Text(m["type"]) {
	case "Collection":
		return m["stac_version"] != nil || m["extent"] != nil
	case "Catalog", "Feature":
		return m["stac_version"] != nil
	case "FeatureCollection":
		return m["stac_version"] != nil || holdsResults(m["features"])
	}
	return false
}

// numbered returns the name of item i of a list of n.
func numbered(name string, i, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", cmp.Or(name, "result"), i+1)
}

func (g *collector) add(v value) error {
	switch kindOf(v.raw) {
	case '{':
		var m map[string]json.RawMessage
		if v.depth <= maxNested && json.Unmarshal(v.raw, &m) == nil {
			return g.addObject(m, v)
		}
	case '[':
		if v.depth <= maxNested && containsLinks(v.raw) {
			return g.addList(v)
		}
	case '"':
		return g.addText(v)
	case 'n':
		if v.depth == 0 {
			return nil
		}
	}
	g.addBytes(v.name, orJSON(v.media), v.raw)
	return nil
}

func orJSON(media string) string {
	if strings.Contains(media, "json") {
		return media
	}
	return mediaJSON
}

func (g *collector) addObject(m map[string]json.RawMessage, v value) error {
	known := isSTAC(m)
	if known {
		if err := g.countEntries(m["assets"], m["links"], m["features"]); err != nil {
			return err
		}
	}
	switch kind := stac.Text(m["type"]); {
	case known && kind == "Collection":
		g.addCollection(m, v)
	case known && kind == "Catalog":
		return g.addCatalog(m, v)
	case known && kind == "Feature":
		return g.addFeature(m, v, "")
	case known && kind == "FeatureCollection":
		return g.addFeatures(m, v)
	case isLink(m):
		return g.addLink(linkOf(m), v)
	case m["value"] != nil && only(m, qualifiers...):
		inner := v.with("", m["value"])
		if id := identifier(m["id"]); v.depth == 0 && id != "" {
			inner.name = id
		}
		inner.media = mediaOf(m)
		return g.add(inner)
	case isGeoJSON(kind):
		g.extent.GeoJSON(v.raw)
		g.addBytes(v.name, mediaGeoJSON, v.raw)
	default:
		g.addBytes(v.name, orJSON(v.media), v.raw)
	}
	return nil
}

// mediaOf returns the media type of a qualified value, in the spellings of several versions.
func mediaOf(m map[string]json.RawMessage) string {
	if media := stac.Text(m["mediaType"]); media != "" {
		return media
	}
	var in map[string]json.RawMessage
	for _, name := range []string{"format", "schema"} {
		if json.Unmarshal(m[name], &in) == nil {
			for _, name := range []string{"mediaType", "contentMediaType"} {
				if media := stac.Text(in[name]); media != "" {
					return media
				}
			}
		}
	}
	return stac.Text(m["mimeType"])
}

// containsLinks reports whether an array contains items to look into: links, STAC, or qualified values.
func containsLinks(raw json.RawMessage) bool {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return false
	}
	kind, holds := byte(0), false
	for _, item := range items {
		switch next := kindOf(item); {
		case next == 'n':
			continue
		case kind != 0 && next != kind, next != '{' && next != '"': // a list of values
			return false
		default:
			kind = next
		}
		holds = holds || isReference(item)
	}
	return holds
}

// isReference reports whether an item of an array is a link, STAC or a qualified value, and not data.
func isReference(item json.RawMessage) bool {
	var m map[string]json.RawMessage
	if kindOf(item) == '"' {
		return stac.IsAddress(stac.Text(item))
	}
	return json.Unmarshal(item, &m) == nil && isOneValue(m)
}

func (g *collector) addList(v value) error {
	if err := g.countEntries(v.raw); err != nil {
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

// addText adds a string: a URL, base64 bytes if the media type says so, or a literal.
func (g *collector) addText(v value) error {
	s := stac.Text(v.raw)
	document := upstream.Finite([]byte(s))
	switch {
	case stac.IsAddress(s):
		l := link{href: s}
		if !strings.HasPrefix(v.media, "text/") {
			l.media = v.media
		}
		return g.addLink(l, v)
	case strings.HasPrefix(s, "data:"):
		g.addAsset(v.name, map[string]string{"href": s})
		return nil
	case strings.Contains(v.media, "json") && json.Valid(document) && v.depth <= maxNested:
		return g.add(v.with("", document))
	case v.media != "" && isBinary(v.media):
		if plain, err := base64.StdEncoding.DecodeString(s); err == nil {
			g.addBytes(v.name, v.media, plain)
			return nil
		}
	}
	media := v.media
	if media == "" || strings.Contains(media, "json") {
		media = "text/plain; charset=utf-8"
	}
	g.addBytes(v.name, media, []byte(s))
	return nil
}

// addLink adds a reference. Its target becomes part of the results if it is STAC, and an asset otherwise.
func (g *collector) addLink(l link, v value) error {
	href := stac.Resolve(v.at, l.href)
	if mayBeSTAC(href, l.media) && g.left > 0 && v.depth <= maxNested {
		taken, err := g.addTarget(href, v)
		if taken || err != nil {
			return err
		}
	}
	asset := map[string]string{"href": href}
	if l.media != "" {
		asset["type"] = l.media
	}
	if l.title != "" {
		asset["title"] = l.title
	}
	g.addAsset(v.name, asset)
	return nil
}

// expectLinks announces those of several links that will be followed.
func (g *collector) expectLinks(all []link, v value) {
	var hrefs []string
	for _, l := range all {
		href := stac.Resolve(v.at, l.href)
		if _, before := g.seen[href]; !before && mayBeSTAC(href, l.media) && !slices.Contains(hrefs, href) &&
			len(hrefs) < g.left {
			hrefs = append(hrefs, href)
		}
	}
	if v.depth <= maxNested {
		g.expect(hrefs)
	}
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

// addTarget reads the target of a link and adds it if it is STAC. A target that cannot be read, other than temporarily,
// is not added.
func (g *collector) addTarget(href string, v value) (taken bool, err error) {
	if taken, before := g.seen[href]; before { // documents may link to themselves, and to each other
		return taken && !g.isEmpty(), nil
	}
	g.left--
	g.seen[href] = false
	d, err := g.read(href)
	switch {
	case upstream.MayPass(err):
		return false, err
	case err != nil:
		return false, nil
	}
	if g.size += int64(len(d.body)); bounds.ResultsBytes.Check(g.size) != nil {
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
	return true, g.addObject(m, next)
}

// addBytes adds data as an asset with a data URI (RFC 2397).
func (g *collector) addBytes(name, media string, data []byte) {
	if media == "" {
		media = "application/octet-stream"
	}
	base, params, err := mime.ParseMediaType(media)
	if err != nil {
		base, params = "application/octet-stream", nil
	}
	full := mime.FormatMediaType(base, params)
	g.addAsset(name, map[string]string{
		"href": "data:" + strings.ReplaceAll(full, " ", "") + ";base64," + base64.StdEncoding.EncodeToString(data),
		"type": full,
	})
}

func (g *collector) addAsset(name string, asset map[string]string) {
	described := stac.Object{}
	for member, s := range asset {
		described[member] = marshal(s)
	}
	stac.Describe(described)
	g.storeAsset(name, marshal(described))
}

func (g *collector) storeAsset(name string, asset json.RawMessage) {
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

func (g *collector) isEmpty() bool { return g.base == nil && len(g.assets) == 0 && len(g.links) == 0 }

func (g *collector) readItem(href string) (stac.Object, *url.URL, error) {
	if bounds.ResultsBytes.Check(g.size) != nil {
		return nil, nil, nil
	}
	d, err := g.read(href)
	if err != nil {
		if !upstream.MayPass(err) {
			err = nil
		}
		return nil, nil, err
	}
	g.size += int64(len(d.body))
	raw, _ := d.json()
	var item stac.Object
	_ = json.Unmarshal(raw, &item) // nil: not JSON
	return item, d.at, g.countEntries(item["assets"], item["links"])
}

func (g *collector) collection() (json.RawMessage, error) {
	if g.isEmpty() {
		return nil, badResults("The platform returned no results.")
	}
	c := g.base
	if c == nil {
		c = map[string]json.RawMessage{}
	}
	if len(g.assets) == 0 {
		if err := stac.AddItems(c, &g.extent, g.expect, g.readItem); err != nil {
			return nil, err
		}
	}
	stac.Complete(c, g.id, g.extent)
	if len(g.assets) > 0 {
		var assets map[string]json.RawMessage
		_ = json.Unmarshal(c["assets"], &assets) // Complete has validated them
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
