package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/upstream"
)

// fetchesAtOnce is how many documents of one source are fetched at once.
const fetchesAtOnce = 4

// isURL reports whether a source is a URL, and not a folder.
func isURL(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// crawl reads the documents of a source at a URL: that at the URL itself, and those to which it leads.
type crawl struct {
	client *upstream.Client
	now    time.Time
	last   map[string]dispatch.SourceDocument // as they were read before, by address
	seen   map[string]bool
	bytes  int64
	found  []dispatch.SourceDocument
}

// readURL reads a source at a URL. A document that cannot be read now keeps its last text, and has a Failure. The error is that of the
// document at the URL itself, or a bound that the source exceeds.
func (c *crawl) readURL(ctx context.Context, source string) ([]dispatch.SourceDocument, error) {
	c.seen = map[string]bool{source: true}
	for level := []string{source}; len(level) > 0; {
		read, err := c.readLevel(ctx, level)
		if err != nil {
			return nil, err
		}
		if first := read[0]; first.Address == source && first.Failure != "" {
			return nil, errors.New(first.Failure)
		}
		level = nil
		for _, d := range read {
			level = append(level, c.unseen(d)...)
		}
		c.found = append(c.found, read...)
		if err := budget.CatalogueDocuments.Check(int64(len(c.found) + len(level))); err != nil {
			return nil, err
		}
	}
	return c.found, nil
}

// readLevel reads documents at once, in their order.
func (c *crawl) readLevel(ctx context.Context, addresses []string) ([]dispatch.SourceDocument, error) {
	read := make([]dispatch.SourceDocument, len(addresses))
	var group errgroup.Group
	group.SetLimit(fetchesAtOnce)
	for i, address := range addresses {
		group.Go(func() error {
			read[i] = c.read(ctx, address)
			return nil
		})
	}
	group.Wait() // the functions return no error
	for _, d := range read {
		c.bytes += int64(len(d.Text))
	}
	return read, errors.Join(ctx.Err(), budget.CatalogueBytes.Check(c.bytes))
}

// read reads one document, or returns the last text with the reason why it could not be read.
func (c *crawl) read(ctx context.Context, address string) dispatch.SourceDocument {
	last := c.last[address]
	d := dispatch.SourceDocument{Address: address, Read: c.now}
	a, err := c.client.Fetch(ctx, upstream.Fetch{Op: "catalogue.read", URL: address, TrustedHosts: true, ETag: last.ETag, Limit: budget.CatalogueDocument.Most})
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

// unseen returns the documents to which a page leads and that are not known yet.
func (c *crawl) unseen(d dispatch.SourceDocument) (next []string) {
	base, err := url.Parse(d.Address)
	if err != nil {
		return nil
	}
	for _, href := range contentOf(d.Text).leadsTo {
		to := withoutFragment(address(href, base))
		if isURL(to) && !c.seen[to] {
			c.seen[to] = true
			next = append(next, to)
		}
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

// leading are the relations of links from catalogue pages and lists to further documents: those of STAC, and of OGC API - Records.
var leading = []string{"item", "items", "child", "next", "record"}

// contentOf reads a document: a record, a list of records or of addresses, a page of records, or a catalogue page with links.
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
	c.records = d.Features
	for _, l := range d.Links {
		if slices.Contains(leading, l.Rel) {
			c.leadsTo, c.page = append(c.leadsTo, l.Href), true
		}
	}
	return c
}

func listed(list []json.RawMessage) content {
	c := content{page: true}
	for _, item := range list {
		var href string
		if json.Unmarshal(item, &href) == nil {
			c.leadsTo = append(c.leadsTo, href)
		} else {
			c.records = append(c.records, item)
		}
	}
	return c
}
