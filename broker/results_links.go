package broker

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	longestKept = 24 * time.Hour // for results whose links do not expire
	shortKept   = time.Minute    // for links whose kind of signature is not known
)

// linksHold returns how long all links to the assets of a Collection are valid, as far as it can be determined from the
// Collection and the links.
func linksHold(raw json.RawMessage, now time.Time) time.Duration {
	var c struct {
		Expires string `json:"expires"` // of all assets, openEO
		Assets  map[string]struct {
			Href    string `json:"href"`
			Expires string `json:"expires"` // of one asset, STAC's timestamps extension
		} `json:"assets"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return 0
	}
	hold := longestKept
	until := func(stated string) {
		if t, err := time.Parse(time.RFC3339, stated); err == nil {
			hold = min(hold, t.Sub(now))
		}
	}
	until(c.Expires)
	for _, a := range c.Assets {
		until(a.Expires)
		hold = min(hold, linkHolds(a.Href, now))
	}
	return max(hold, 0)
}

// linkHolds returns how long one link is valid. The query of a signed link contains its expiry, in a form that depends
// on the signer.
func linkHolds(href string, now time.Time) time.Duration {
	u, err := url.Parse(href)
	if err != nil || u.RawQuery == "" || u.Scheme == "data" {
		return longestKept
	}
	q := map[string]string{}
	for name, values := range u.Query() {
		q[strings.ToLower(name)] = values[0]
	}
	for _, signer := range []string{"x-amz-", "x-goog-"} {
		signed, err := time.Parse("20060102T150405Z", q[signer+"date"])
		if seconds, bad := strconv.ParseUint(q[signer+"expires"], 10, 32); err == nil && bad == nil {
			return signed.Add(time.Duration(seconds) * time.Second).Sub(now)
		}
	}
	if end, err := time.Parse(time.RFC3339, q["se"]); err == nil { // Azure
		return end.Sub(now)
	}
	// openEO back-ends, CloudFront
	if seconds, err := strconv.ParseInt(q["expires"], 10, 64); err == nil && seconds < 1<<40 {
		return time.Unix(seconds, 0).Sub(now)
	}
	return shortKept
}
