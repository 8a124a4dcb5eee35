package stac

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// mostItems is how many Items of a Collection are read.
const mostItems = 100

// ItemReader returns an Item and its address, or nil if it cannot be read.
type ItemReader func(href string) (Object, *url.URL, error)

// AddItems adds to a Collection that has no assets those of the Items that it links to, and widens e by the Items. Its
// links must be absolute already, see [Anchor]. expect is called with the Items that are read, before the first is. An
// error of read ends AddItems. The description says how many Items are only linked.
func AddItems(c Object, e *Extent, expect func(hrefs []string), read ItemReader) error {
	var assets map[string]Object
	if _ = json.Unmarshal(c["assets"], &assets); len(assets) > 0 {
		return nil
	}
	items, hrefs, seen := []Object{}, []string{}, map[string]bool{}
	for _, l := range Links(c) {
		if href := Text(l["href"]); Text(l["rel"]) == "item" && IsAddress(href) && !seen[href] {
			seen[href] = true
			hrefs = append(hrefs, href)
		}
	}
	hrefs = hrefs[:min(len(hrefs), mostItems)]
	expect(hrefs)
	for _, href := range hrefs {
		item, at, err := read(href)
		if err != nil {
			return err
		}
		if Text(item["type"]) != "Feature" {
			continue
		}
		Anchor(item, Base(item, at))
		e.Feature(item)
		items = append(items, item)
	}
	if len(seen) == 0 {
		return nil
	}
	c["assets"] = marshal(assetsOf(items))
	if unread := len(seen) - len(items); unread > 0 {
		about := Text(c["description"])
		if about != "" {
			about += " "
		}
		c["description"] = marshal(fmt.Sprintf("%sThe assets of %d of its %d Items are not listed here, but in the "+
			"Items, to which links lead.", about, unread, len(seen)))
	}
	return nil
}

// assetsOf returns the assets of Items. If there are several, the keys begin with their ids.
func assetsOf(items []Object) Object {
	all := Object{}
	for i, item := range items {
		var own Object
		_ = json.Unmarshal(item["assets"], &own) // valid, see Anchor; nil: none
		prefix := ""
		if len(items) > 1 {
			prefix = fmt.Sprintf("%d_", i+1)
			if id := Text(item["id"]); id != "" {
				prefix = id + "_"
			}
		}
		for key, a := range own {
			name := prefix + key
			for n := 2; all[name] != nil; n++ {
				name = fmt.Sprintf("%s%d_%s", prefix, n, key)
			}
			all[name] = a
		}
	}
	return all
}
