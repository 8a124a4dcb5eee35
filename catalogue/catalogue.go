package catalogue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	checkEvery  = 5 * time.Second  // how often a process checks whether a source is due or has changed
	readWithin  = 10 * time.Minute // for one source; then another process may read it
	retryAfter  = 5 * time.Minute  // at most, after a source could not be read
	folderEvery = time.Minute      // how often folders are read

	mostRejections = 1_000 // that are kept of one source
	mostNamed      = 10    // ids in one line of the log
)

// Platforms finds the configured platform of a service; [*broker.Broker] implements it.
type Platforms interface {
	Backend(dispatch.Service, dispatch.Label) (*dispatch.Backend, error)
}

// Config is what a catalogue is made of. The zero Config makes an empty catalogue.
type Config struct {
	Sources   []string  // folders and URLs of records
	Services  []Service // from the configuration; they come before those of sources
	Platforms Platforms
	Store     Sources          // not needed without sources
	Client    *upstream.Client // must trust the sources that are private or use http
	Every     time.Duration    // how often sources at URLs are read; default one hour
	Log       *slog.Logger
}

// Catalogue holds the services of all sources. Its methods may be called concurrently.
type Catalogue struct {
	Config

	assembling sync.Mutex // so that a later state of a source is not replaced by an earlier one

	mu      sync.RWMutex
	sources map[string]dispatch.Source
	shown   []entry // in the order of titles
	byID    map[string]Service
	ids     map[serviceKey]string
	refused []Rejection
	taken   []string // as in assembly
}

// New returns a catalogue that has the services of the configuration. Run adds those of the sources.
func New(c Config) *Catalogue {
	all := &Catalogue{Config: c, sources: map[string]dispatch.Source{}}
	if all.Every == 0 {
		all.Every = time.Hour
	}
	if all.Log == nil {
		all.Log = slog.New(slog.DiscardHandler)
	}
	all.assemble()
	return all
}

// Find returns the service with an id.
func (c *Catalogue) Find(id string) (Service, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.byID[id]
	return s, ok
}

// Identify returns the id of the service that a request names, in the spelling of the catalogue. Of several with
// different ids it is the first by title.
func (c *Catalogue) Identify(l dispatch.Label, s dispatch.Service) (id string, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, ok = c.ids[keyOf(l, s)]
	return id, ok
}

// Formats returns the output formats that the record of a service names; none if the catalogue does not have it.
func (c *Catalogue) Formats(l dispatch.Label, s dispatch.Service) []string {
	id, _ := c.Identify(l, s)
	listed, _ := c.Find(id)
	return listed.Formats
}

// serviceKey is what a request names a service by.
type serviceKey struct {
	label                            dispatch.Label
	endpoint, namespace, application string
}

func keyOf(l dispatch.Label, s dispatch.Service) serviceKey {
	return serviceKey{label: l, endpoint: s.Endpoint, namespace: s.NamespaceAt(l), application: s.Application}
}

// Rejections returns the records that are not shown, with the reasons.
func (c *Catalogue) Rejections() []Rejection {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.refused)
}

// Failures returns, by source, why sources could not be read the last time.
func (c *Catalogue) Failures() map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	failures := map[string]string{}
	for name, s := range c.sources {
		if s.Failure != "" {
			failures[name] = s.Failure
		}
	}
	return failures
}

// Run keeps the catalogue as its sources are, until ctx is done. Of all processes that share the store, one reads each
// source.
func (c *Catalogue) Run(ctx context.Context) {
	if len(c.Sources) == 0 {
		return
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		if err := c.check(ctx, &reading); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "catalogue not refreshed", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check loads the sources that have changed, and begins to read those that are due and that no other process reads.
// Each is read on its own, because one may take minutes.
func (c *Catalogue) check(ctx context.Context, reading *sync.WaitGroup) error {
	states, err := c.Store.SourceStates(ctx)
	if err != nil {
		return err
	}
	if err := c.load(ctx, states); err != nil {
		return err
	}
	for _, name := range c.Sources {
		if state, known := states[name]; known && !state.Due {
			continue
		}
		claim, err := c.Store.ClaimSource(ctx, name, readWithin)
		if err != nil {
			return err
		}
		if claim != nil {
			reading.Go(func() { c.refresh(ctx, *claim) })
		}
	}
	return nil
}

// load loads the sources whose revisions differ from those that this process knows.
func (c *Catalogue) load(ctx context.Context, states map[string]dispatch.SourceState) error {
	for _, name := range c.Sources {
		state, stored := states[name]
		known, loaded := c.source(name)
		if !stored || loaded && known.Revision == state.Revision {
			continue
		}
		s, err := c.Store.Source(ctx, name)
		if err != nil {
			return err
		}
		c.show(name, s)
	}
	return nil
}

func (c *Catalogue) source(name string) (dispatch.Source, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.sources[name]
	return s, ok
}

// show replaces what is known of a source.
func (c *Catalogue) show(name string, s dispatch.Source) {
	c.mu.Lock()
	c.sources[name] = s
	c.mu.Unlock()
	c.assemble()
	c.Log.Info("catalogue loaded", "source", shownName(name), "services", len(c.all()), "not_used", len(c.Rejections()))
	c.warnOfTaken()
}

// refresh reads and shows a source that this process has claimed.
func (c *Catalogue) refresh(ctx context.Context, claim dispatch.SourceClaim) {
	if err := c.readClaimed(ctx, claim); err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "source of the catalogue not refreshed", "source", shownName(claim.Name), "error", err)
	}
}

func (c *Catalogue) readClaimed(ctx context.Context, claim dispatch.SourceClaim) error {
	name := claim.Name
	within, cancel := context.WithTimeout(ctx, readWithin-time.Minute)
	defer cancel()
	read, err := c.read(within, claim.Source, claim.Now)
	if ctx.Err() != nil { // this process stops; another may read the source at once
		return c.Store.SaveSource(context.WithoutCancel(ctx), claim, 0)
	}
	before := claim.Source
	if claim.Documents, claim.Failure = read, ""; err == nil {
		claim.Read = claim.Now
	} else {
		claim.Failure = reasonOf(err)
		c.Log.WarnContext(ctx, "source of the catalogue not read", "source", shownName(name), "error", claim.Failure)
	}
	again := c.again(name, err)
	if !equal(before, claim.Source) {
		claim.Revision++
	}
	if err := c.Store.SaveSource(ctx, claim, again); err != nil {
		if dispatch.Is(err, dispatch.Conflict) { // it took so long that another process reads the source
			return nil
		}
		return err
	}
	if known, loaded := c.source(name); !loaded || known.Revision != claim.Revision {
		c.show(name, claim.Source)
	}
	return nil
}

// again returns when a source is read again that was read with this error. A source beyond a bound is not tried again
// sooner than others.
func (c *Catalogue) again(name string, err error) time.Duration {
	_, beyond := errors.AsType[*bounds.Exceeded](err)
	switch {
	case !isURL(name):
		return min(c.Every, folderEvery)
	case err != nil && !beyond:
		return min(c.Every, retryAfter)
	}
	return c.Every
}

// Read reads all sources now, without the store, and shows them.
func (c *Catalogue) Read(ctx context.Context) {
	for _, name := range c.Sources {
		s := dispatch.Source{Name: name}
		var err error
		if s.Documents, err = c.read(ctx, s, time.Now()); err != nil {
			s.Failure = reasonOf(err)
		}
		c.show(name, s)
	}
}

// read returns the documents of a source. If it is not read to its end, they are what was read, and the documents of
// the last reading that were not reached, with the reason as their Failure.
func (c *Catalogue) read(ctx context.Context, last dispatch.Source, now time.Time) ([]dispatch.SourceDocument, error) {
	found, err := c.readSource(ctx, last, now)
	if err != nil {
		found = withLast(found, last.Documents, reasonOf(err))
	}
	return found, err
}

func (c *Catalogue) readSource(ctx context.Context, last dispatch.Source, now time.Time) ([]dispatch.SourceDocument,
	error) {
	if !isURL(last.Name) {
		return readFolder(last.Name, now)
	}
	known := map[string]dispatch.SourceDocument{}
	for _, d := range last.Documents {
		known[d.Address] = d
	}
	return (&crawl{client: c.Client, now: now, last: known}).readURL(ctx, last.Name)
}

// withLast adds the documents of the last reading that were not found now, as far as the bounds allow, with the reason
// as their Failure.
func withLast(found, last []dispatch.SourceDocument, reason string) []dispatch.SourceDocument {
	known, bytes := map[string]bool{}, int64(0)
	for _, d := range found {
		known[d.Address] = true
		bytes += int64(len(d.Text))
	}
	for _, d := range last {
		more := bytes + int64(len(d.Text))
		if known[d.Address] || int64(len(found)) >= bounds.CatalogueDocuments.Most ||
			more > bounds.CatalogueBytes.Most {
			continue
		}
		d.Failure, bytes = reason, more
		found = append(found, d)
	}
	return found
}

// equal reports whether two states of a source show the same.
func equal(a, b dispatch.Source) bool {
	return a.Failure == b.Failure && a.Read.IsZero() == b.Read.IsZero() && slices.EqualFunc(a.Documents, b.Documents,
		func(x, y dispatch.SourceDocument) bool {
			return x.Address == y.Address && x.ETag == y.ETag && x.Text == y.Text && x.Failure == y.Failure
		})
}

// shownName returns the name of a source for logs, without the query of a URL.
func shownName(source string) string {
	name, _, _ := strings.Cut(source, "?")
	return name
}

// assemble makes the services of the configuration and of all sources known. Rendering them takes a while, in which the
// former ones are shown.
func (c *Catalogue) assemble() {
	c.assembling.Lock()
	defer c.assembling.Unlock()
	a := assembly{platforms: c.Platforms, byID: map[string]Service{}}
	for _, s := range c.Services {
		err := s.check()
		a.add("configuration", s, err)
	}
	for _, name := range c.Sources {
		s, _ := c.source(name)
		a.addSource(s, isURL(name))
	}
	shown := make([]entry, 0, len(a.byID))
	for _, s := range a.byID {
		shown = append(shown, newEntry(s))
	}
	slices.SortFunc(shown, func(a, b entry) int { return a.at.compare(b.at) })
	ids := map[serviceKey]string{}
	for _, s := range slices.Backward(shown) {
		for _, h := range s.Also {
			ids[keyOf(h.Label, h.Service)] = s.ID
		}
	}
	for _, s := range slices.Backward(shown) {
		ids[keyOf(s.Label, s.Service.Service)] = s.ID
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID, c.ids, c.refused, c.taken, c.shown = a.byID, ids, a.refused, a.taken, shown
}

// warnOfTaken logs ids that more than one record has: a source may try to take the place of a service that users know.
func (c *Catalogue) warnOfTaken() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.taken) > 0 {
		c.Log.Warn("records are not used because services before them have their ids", "records", len(c.taken), "ids",
			c.taken[:min(len(c.taken), mostNamed)])
	}
}

func (c *Catalogue) all() []entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.shown
}

// assembly sorts records into services and rejections.
type assembly struct {
	platforms Platforms
	byID      map[string]Service
	refused   []Rejection
	taken     []string // ids that a record has and that belong to a service before it

	// of the source that is added
	records, listed, further int // records, rejections, and records that are not used and not listed
}

func (a *assembly) addSource(source dispatch.Source, atURL bool) {
	a.records, a.listed, a.further = 0, 0, 0
	a.addDocuments(source, atURL)
	if a.further > 0 {
		a.refused = append(a.refused, Rejection{Address: shownName(source.Name), Reason: fmt.Sprintf(
			"%d further records are not used: of a source, %d records are read and %d reasons are kept", a.further,
			bounds.CatalogueRecords.Most, mostRejections)})
	}
}

func (a *assembly) addDocuments(source dispatch.Source, atURL bool) {
	for _, d := range source.Documents {
		if d.Text == "" {
			a.refuse(Rejection{Address: d.Address, Reason: "it cannot be read: " + d.Failure})
			continue
		}
		stale := time.Time{}
		if d.Failure != "" {
			stale = d.Read
		}
		a.addDocument(d, atURL, stale)
	}
}

// addDocument adds the records of a document. Folders may hold other documents beside records.
func (a *assembly) addDocument(d dispatch.SourceDocument, atURL bool, stale time.Time) {
	c := contentOf(d.Text)
	if len(c.records) == 0 && !c.page && atURL {
		a.refuse(Rejection{Address: d.Address, Reason: "it is neither a record nor a list or page of records"})
	}
	var base *url.URL
	if atURL {
		base, _ = url.Parse(d.Address) // it was fetched
	}
	for i, raw := range c.records {
		if int64(a.records) >= bounds.CatalogueRecords.Most {
			a.further += len(c.records) - i
			return
		}
		var r record
		if err := decode(raw, &r); err != nil || !atURL && r.Type != "Feature" {
			continue
		}
		a.records++
		address := d.Address
		if len(c.records) > 1 {
			address = fmt.Sprintf("%s#%d", address, i)
		}
		s, err := r.service(base)
		s.StaleSince = stale
		a.add(address, s, err)
	}
}

// add adds a service, unless it has a fault, none of its platforms is configured, or another service has its id.
// Placements that cannot be used are left out.
func (a *assembly) add(address string, s Service, err error) {
	var without error
	if err == nil {
		without, err = a.locate(&s)
	}
	if _, taken := a.byID[s.ID]; err == nil && taken {
		a.taken = append(a.taken, s.ID)
		err = fmt.Errorf("another service has the id %s", s.ID)
	}
	if err != nil {
		a.refuse(Rejection{Address: address, ID: clip(plain(s.ID), mostID), Reason: reasonOf(err)})
		return
	}
	a.byID[s.ID] = s
	if without != nil {
		a.refuse(Rejection{Address: address, ID: s.ID, Reason: "it is shown without a platform: " + reasonOf(without)})
	}
}

// refuse lists a rejection, or counts it if the source has too many.
func (a *assembly) refuse(r Rejection) {
	if a.listed == mostRejections {
		a.further++
		return
	}
	a.listed++
	a.refused = append(a.refused, r)
}

// locate finds the platforms of a service, and leaves out the placements that cannot be used, for the reason without.
// It is an error if none is left.
func (a *assembly) locate(s *Service) (without, err error) {
	var placements []Placement
	for _, h := range s.Placements() {
		err := a.locatePlacement(&h)
		if err == nil && slices.ContainsFunc(placements,
			func(before Placement) bool { return before.Platform == h.Platform }) {
			err = fmt.Errorf("platform %s: it is named twice", h.Platform)
		}
		switch {
		case err == nil && len(placements) == dispatch.MostPlacements:
			without = cmp.Or(without, fmt.Errorf("platform %s: a service can be at %d platforms at most", h.Platform,
				dispatch.MostPlacements))
		case err == nil:
			placements = append(placements, h)
		default:
			without = cmp.Or(without, err)
		}
	}
	if len(placements) == 0 {
		return nil, without
	}
	s.Label, s.Service, s.Platform, s.Also = placements[0].Label, placements[0].Service, placements[0].Platform,
		placements[1:]
	return without, nil
}

// locatePlacement finds the platform of a placement, which checks where the service is.
func (a *assembly) locatePlacement(h *Placement) error {
	backend, err := a.platforms.Backend(h.Service, h.Label)
	if err != nil {
		return fmt.Errorf("endpoint %s: %s", h.Service.Endpoint, reasonOf(err))
	}
	if _, err := backend.Platform.Base(h.Service); err != nil {
		return fmt.Errorf("platform %s: %s", backend.Name, reasonOf(err))
	}
	h.Platform = backend.Name
	return nil
}

// Sources stores what was read from the sources of the catalogue, so that all processes show the same, one of them
// reads each source, and the last good state is shown while a source does not respond.
type Sources interface {
	// SourceStates returns the states of all sources that were ever claimed, by name.
	SourceStates(context.Context) (map[string]dispatch.SourceState, error)
	// ClaimSource claims a source for the given time. It returns nil if the source is not due. A source that was never
	// claimed is due.
	ClaimSource(ctx context.Context, name string, within time.Duration) (*dispatch.SourceClaim, error)
	// SaveSource stores what was read under a claim, and when the source is due again. If another process has claimed
	// the source since, it returns Conflict and stores nothing.
	SaveSource(ctx context.Context, c dispatch.SourceClaim, again time.Duration) error
	// Source returns a source; the zero Source if it was never claimed.
	Source(ctx context.Context, name string) (dispatch.Source, error)
	// PurgeSources deletes sources that have been due for longer than keep, because no process has them in its
	// configuration any more.
	PurgeSources(ctx context.Context, keep time.Duration) error
}
