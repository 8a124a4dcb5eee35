package ogcapi

import (
	"encoding/json"
	"net/url"
	"slices"

	"github.com/eodispatch/eodispatch/platform/stac"
)

// addCollection adds a STAC Collection: the first becomes the base of the result, of others the assets and a link are
// added.
func (g *collector) addCollection(m stac.Object, v value) {
	stac.Anchor(m, stac.Base(m, v.at))
	if g.base == nil {
		g.base = m
		return
	}
	for _, a := range namedValues(m["assets"]) {
		g.storeAsset(v.name+"_"+a.id, a.value)
	}
	g.addLinkTo("child", stac.Self(m), mediaJSON)
	if stac.Self(m) == "" && len(namedValues(m["assets"])) == 0 {
		g.addBytes(v.name, mediaJSON, marshal(m))
	}
}

// addCatalog adds what a STAC Catalog links to. A Catalog without links is itself a result.
func (g *collector) addCatalog(m stac.Object, v value) error {
	var links []link
	for _, one := range stac.Links(m) {
		if l := linkOf(one); (l.rel == "item" || l.rel == "child") && l.href != "" {
			l.media = mediaJSON
			links = append(links, l)
		}
	}
	inner := v.with("", nil)
	inner.at = stac.Base(m, v.at)
	g.expectLinks(links, inner)
	for _, l := range links {
		next := inner
		next.name = lastSegment(l.href)
		if err := g.addLink(l, next); err != nil {
			return err
		}
	}
	if len(links) == 0 {
		g.addBytes(v.name, mediaJSON, v.raw)
	}
	return nil
}

// holdsResults reports whether features represent data. It decodes one feature at a time: many may not.
func holdsResults(raw json.RawMessage) bool {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return false
	}
	return slices.ContainsFunc(all, func(one json.RawMessage) bool {
		var f stac.Object
		return json.Unmarshal(one, &f) == nil && isResultFeature(f)
	})
}

// isResultFeature reports whether a feature represents data: a STAC Item, or a feature that links to its STAC
// Collection.
func isResultFeature(f stac.Object) bool {
	return f["stac_version"] != nil || len(namedValues(f["assets"])) > 0 || len(collectionsOf(f, nil)) > 0
}

// addFeatures adds a FeatureCollection that represents data: its Items that have assets or, without those, the
// Collections that they link to.
func (g *collector) addFeatures(m stac.Object, v value) error {
	all, seen, links := []stac.Object{}, map[string]bool{}, []link{}
	if json.Unmarshal(m["features"], &all) != nil {
		all = nil
	}
	for _, f := range all {
		for _, href := range collectionsOf(f, v.at) {
			if len(namedValues(f["assets"])) > 0 || seen[href] {
				continue
			}
			seen[href] = true
			links = append(links, link{href: href, media: mediaJSON})
		}
	}
	g.expectLinks(links, v.with("collection", nil))
	for _, l := range links {
		if err := g.addLink(l, v.with("collection", nil)); err != nil {
			return err
		}
	}
	for _, f := range all {
		if len(namedValues(f["assets"])) == 0 && len(seen) > 0 && len(collectionsOf(f, v.at)) > 0 {
			g.extent.Feature(f)
			continue
		}
		prefix := ""
		if id := identifier(f["id"]); len(all) > 1 && id != "" {
			prefix = id + "_"
		}
		if err := g.addFeature(f, v, prefix); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		g.addBytes(v.name, mediaGeoJSON, v.raw)
	}
	return nil
}

// collectionsOf returns the URLs that a feature links to as its collection.
func collectionsOf(f stac.Object, at *url.URL) []string {
	var all []string
	for _, l := range stac.Links(f) {
		if href := stac.Text(l["href"]); stac.Text(l["rel"]) == "collection" && href != "" {
			all = append(all, stac.Resolve(at, href))
		}
	}
	return all
}

// addFeature adds a STAC Item, or a feature unchanged.
func (g *collector) addFeature(f stac.Object, v value, prefix string) error {
	g.extent.Feature(f)
	stac.Anchor(f, stac.Base(f, v.at))
	assets := namedValues(f["assets"])
	for _, a := range assets {
		g.storeAsset(prefix+a.id, a.value)
	}
	if len(assets) == 0 {
		name := identifier(f["id"])
		if name == "" {
			name = v.name
		}
		g.addBytes(name, mediaGeoJSON, marshal(f))
	}
	g.addLinkTo("item", stac.Self(f), mediaGeoJSON)
	return nil
}

func (g *collector) addLinkTo(rel, href, media string) {
	if href != "" {
		g.links = append(g.links, marshal(map[string]string{"rel": rel, "href": href, "type": media}))
	}
}
