package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// fetchesAtOnce is how many documents of one source are fetched at once.
const fetchesAtOnce = 4

// errNotInTime is why a source that sends its documents slowly is not read to its end.
var errNotInTime = errors.New("it could not be read to its end in time")

// isURL reports whether a source is a URL, and not a folder.
func isURL(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// crawl reads the documents of a source at a URL: that at the URL itself, and those to which it leads.
type crawl struct {
	client  *upstream.Client
	now     time.Time
	last    map[string]dispatch.SourceDocument // as they were read before, by address
	seen    map[string]bool                    // the documents that were read, and those to be read next
	bytes   atomic.Int64
	records int
	beyond  error // the bound at which no further links are followed
}

// readURL reads a source at a URL. A document that cannot be read now keeps its last text, and has a Failure. The error
// is that of the document at the URL itself, or says why the source was not read to its end; then the documents are
// those that were read until then.
func (c *crawl) readURL(ctx context.Context, source string) (found []dispatch.SourceDocument, err error) {
	c.seen = map[string]bool{source: true}
	for level := []string{source}; len(level) > 0; {
		read, err := c.readLevel(ctx, level)
		if len(read) > 0 && read[0].Address == source && read[0].Failure != "" {
			return nil, errors.New(read[0].Failure)
		}
		found = append(found, read...)
		if err != nil {
			return found, err
		}
		level = c.next(read)
	}
	return found, c.beyond
}

// readLevel reads documents at once, and returns them in their order. If it stops early, it returns those that were
// read until then.
func (c *crawl) readLevel(ctx context.Context, addresses []string) ([]dispatch.SourceDocument, error) {
	read := make([]dispatch.SourceDocument, len(addresses))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(fetchesAtOnce)
	for i, address := range addresses {
		group.Go(func() (err error) {
			read[i], err = c.readNext(within, address)
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNotInTime
	}
	return slices.DeleteFunc(read, func(d dispatch.SourceDocument) bool { return d.Address == "" }), err
}

// readNext reads one document, unless the source is at its bound or the reading has ended; then it returns the zero
// document.
func (c *crawl) readNext(ctx context.Context, address string) (none dispatch.SourceDocument, err error) {
	if err := cmp.Or(ctx.Err(), bounds.CatalogueBytes.Check(c.bytes.Load())); err != nil {
		return none, err
	}
	d := c.read(ctx, address)
	if err := cmp.Or(ctx.Err(), bounds.CatalogueBytes.Check(c.bytes.Add(int64(len(d.Text))))); err != nil {
		return none, err
	}
	return d, nil
}

// next returns the documents to which those of a level lead, as far as the bounds allow.
func (c *crawl) next(read []dispatch.SourceDocument) (level []string) {
	for _, d := range read {
		holds := contentOf(d.Text)
		if c.records += len(holds.records); int64(c.records) > bounds.CatalogueRecords.Most {
			c.beyond = bounds.CatalogueRecords.Refuse()
			return nil
		}
		level = append(level, c.unseen(d.Address, holds.leadsTo)...)
	}
	return level
}

// read reads one document, or returns the last text with the reason why it could not be read.
func (c *crawl) read(ctx context.Context, address string) dispatch.SourceDocument {
	last := c.last[address]
	d := dispatch.SourceDocument{Address: address, Read: c.now}
	a, err := c.client.Fetch(ctx, upstream.Fetch{Op: "catalogue.read", URL: address, TrustedHosts: true,
		ETag: last.ETag, Limit: bounds.CatalogueDocument.Most})
	switch {
	case err == nil && a.Status == 304:
		d.Text, d.ETag = last.Text, last.ETag
		return d
	case err == nil && !isJSON(a.Body):
		err = errors.New("it is not JSON in UTF-8")
	case err == nil:
		d.Text, d.ETag = string(a.Body), a.Header.Get("ETag")
		return d
	}
	failed := dispatch.SourceDocument{Address: address, Failure: reasonOf(err)}
	if !dispatch.Is(err, dispatch.NotFound) {
		failed.Text, failed.ETag, failed.Read = last.Text, last.ETag, last.Read
	}
	return failed
}

func isJSON(text []byte) bool { return utf8.Valid(text) && json.Valid(text) }

// reasonOf returns the text of an error, as a sentence without a full stop.
func reasonOf(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*dispatch.Error](err); ok && e.Text != "" {
		text = e.Text
	}
	return strings.TrimSuffix(text, ".")
}

// unseen returns the documents to which the links of a page lead and that are not known yet.
func (c *crawl) unseen(page string, links []string) (next []string) {
	base, err := url.Parse(page)
	if err != nil {
		return nil
	}
	for _, href := range links {
		to := withoutFragment(address(href, base))
		if !isURL(to) || c.seen[to] {
			continue
		}
		if int64(len(c.seen)) >= bounds.CatalogueDocuments.Most {
			c.beyond = bounds.CatalogueDocuments.Refuse()
			break
		}
		c.seen[to] = true
		next = append(next, to)
	}
	return next
}

func withoutFragment(address string) string {
	before, _, _ := strings.Cut(address, "#")
	return before
}

// content is what a document holds: records, and the addresses of further documents.
type content struct {
	records []json.RawMessage
	leadsTo []string
	page    bool // the document is a list or a catalogue page, even if it is empty
}

// leading are the relations of links from catalogue pages and lists to further documents: those of STAC, and of OGC API
// - Records.
var leading = []string{"item", "items", "child", "next", "record"}

// contentOf reads a document: a record, a list of records or of addresses, a page of records, or a catalogue page with
// links.
func contentOf(text string) content {
	raw := []byte(text)
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		return listed(list)
	}
	var d struct {
		Type     string
		Features []json.RawMessage
		Links    []recordLink
	}
	if decode(raw, &d) != nil {
		return content{}
	}
	c := content{page: slices.Contains([]string{"FeatureCollection", "Catalog", "Collection"}, d.Type)}
	if d.Type == "Feature" {
		c.records = []json.RawMessage{raw}
		return c
	}
	c.records = slices.DeleteFunc(d.Features, func(f json.RawMessage) bool { return !isObject(f) })
	for _, l := range d.Links {
		if slices.Contains(leading, l.Rel) {
			c.leadsTo, c.page = append(c.leadsTo, l.Href), true
		}
	}
	return c
}

func isObject(item json.RawMessage) bool { return len(item) > 0 && item[0] == '{' }

// listed reads a list of records and of addresses. Other items are ignored.
func listed(list []json.RawMessage) content {
	c := content{page: true}
	for _, item := range list {
		var href string
		switch {
		case isObject(item):
			c.records = append(c.records, item)
		case json.Unmarshal(item, &href) == nil:
			c.leadsTo = append(c.leadsTo, href)
		}
	}
	return c
}
