package broker

import (
	linked "container/list"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// resultKey identifies the results of one attempt of a job.
type resultKey struct {
	job dispatch.JobID
	ref dispatch.Ref
}

const (
	keptResults = 64 << 20       // bytes
	longestKept = 24 * time.Hour // for results whose links do not expire
	shortKept   = time.Minute    // for links whose kind of signature is not known
)

// keptCollections caches the results read last while their links are valid, and after that their extent in place and
// time.
type keptCollections struct {
	mu    sync.Mutex
	bytes int
	used  linked.List // of *keptCollection, most recently used first
	at    map[resultKey]*linked.Element
}

type keptCollection struct {
	key   resultKey
	raw   json.RawMessage
	until time.Time
}

// fresh returns results whose links are valid, nil if there are none.
func (k *keptCollections) fresh(key resultKey) json.RawMessage {
	if c := k.find(key); c != nil && time.Now().Before(c.until) {
		return c.raw
	}
	return nil
}

// last returns results whose links may have expired, nil if there are none.
func (k *keptCollections) last(key resultKey) json.RawMessage {
	if c := k.find(key); c != nil {
		return c.raw
	}
	return nil
}

func (k *keptCollections) find(key resultKey) *keptCollection {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.at[key]
	if e == nil {
		return nil
	}
	k.used.MoveToFront(e)
	return e.Value.(*keptCollection)
}

// keep caches results for nine tenths of the validity of their links, so that a client has time to follow one.
func (k *keptCollections) keep(key resultKey, raw json.RawMessage) {
	c := &keptCollection{key, raw, time.Now().Add(linksHold(raw, time.Now()) / 10 * 9)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.at[key]; old != nil {
		k.drop(old)
	}
	dispatch.SetInMap(&k.at, key, k.used.PushFront(c))
	for k.bytes += len(raw); k.bytes > keptResults; {
		k.drop(k.used.Back())
	}
}

func (k *keptCollections) drop(e *linked.Element) {
	c := k.used.Remove(e).(*keptCollection)
	delete(k.at, c.key)
	k.bytes -= len(c.raw)
}

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
