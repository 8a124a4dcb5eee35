package documents

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/hub"
)

const (
	fetchWithin = 15 * time.Second // time limit of one fetch; adapters end sooner
	fetchGrace  = time.Second      // how long a fetch may take before the jobs that wait for it show that they wait

	// Limits on concurrent fetches: in total, of a user, from a host, and of a user from a host. A host that hangs
	// occupies at most half of a user's fetches, and a user at most half of a host's.
	fetches           = 64
	fetchesOfUser     = 8
	fetchesAtHost     = 8
	fetchesOfUserHost = 4

	// Limits on queued fetches: in total, and of a user. A document beyond them is requested again by the jobs that
	// need it.
	queuedFetches       = 1000
	queuedFetchesOfUser = 100
)

// Documents are the documents that define services: those that are being fetched, and those that jobs are pinned to.
type Documents struct {
	*dispatch.Setup
	Store Store
	Hub   *hub.Hub

	Preparing preparations
}

// preparations holds the running and the queued fetches of documents, the queued ones in the order of their requests.
// They are separate from all requests to platforms. The zero value is ready.
type preparations struct {
	mu      sync.Mutex
	all     map[string]*preparation // by platform and URL
	running []*preparation
	queue   []*preparation
}

// preparation is the fetch of one document, running or queued.
type preparation struct {
	key     string
	user    dispatch.UserID // the user of the first request
	host    string
	prepare func(context.Context) error

	asked, begun time.Time // begun is zero while the fetch is queued
	over         chan struct{}
	wakes        map[dispatch.Account]bool // accounts whose visits wait for it
}

// join returns the preparation with the key of fresh, and the preparations that can begin now. If there is none with
// that key, it queues fresh; it returns nil if too many are queued. Unless a is empty, the visit of that account is
// woken when the preparation ends.
func (p *preparations) join(fresh *preparation, a dispatch.Account) (prep *preparation, begin []*preparation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	prep = p.all[fresh.key]
	if prep == nil {
		if len(p.queue) >= queuedFetches || p.queuedFor(fresh.user) >= queuedFetchesOfUser {
			return nil, nil
		}
		prep = fresh
		prep.asked, prep.over, prep.wakes = time.Now(), make(chan struct{}), map[dispatch.Account]bool{}
		dispatch.SetInMap(&p.all, prep.key, prep)
		p.queue = append(p.queue, prep)
		begin = p.begin()
	}
	if a != "" {
		prep.wakes[a] = true
	}
	return prep, begin
}

func (p *preparations) queuedFor(u dispatch.UserID) (n int) {
	for _, prep := range p.queue {
		if prep.user == u {
			n++
		}
	}
	return n
}

// begin moves the preparations that the limits now allow from the queue to the running ones, and returns them.
func (p *preparations) begin() (begun []*preparation) {
	p.queue = slices.DeleteFunc(p.queue, func(prep *preparation) bool {
		if !p.room(prep.user, prep.host) {
			return false
		}
		prep.begun = time.Now()
		p.running, begun = append(p.running, prep), append(begun, prep)
		return true
	})
	return begun
}

// room reports whether one more document may be fetched for a user from a host.
func (p *preparations) room(u dispatch.UserID, host string) bool {
	var ofUser, atHost, both int
	for _, other := range p.running {
		if other.user == u {
			ofUser++
		}
		if other.host == host {
			atHost++
		}
		if other.user == u && other.host == host {
			both++
		}
	}
	return len(p.running) < fetches && ofUser < fetchesOfUser && atHost < fetchesAtHost && both < fetchesOfUserHost
}

// end removes a preparation that has ended. It returns the accounts whose visits wait for it, and the preparations that
// can begin now.
func (p *preparations) end(prep *preparation) (wakes map[dispatch.Account]bool, begin []*preparation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, prep.key)
	p.running = slices.DeleteFunc(p.running, func(other *preparation) bool { return other == prep })
	close(prep.over)
	return prep.wakes, p.begin()
}

// Late returns the time from which a job that waits for the preparation shows that it waits, and whether the fetch has
// begun.
func (p *preparations) Late(prep *preparation) (at time.Time, underWay bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return prep.asked.Add(fetchGrace), !prep.begun.IsZero()
}

// Prepare returns the fetch of a document, which it queues if no other request has done so; nil if too many are queued.
func (d *Documents) Prepare(backend *dispatch.Backend, u dispatch.UserID, a dispatch.Account, s dispatch.Service,
	address string) *preparation {
	prep, begin := d.Preparing.join(&preparation{key: backend.Name + " " + address, user: u, host: hostOf(address),
		prepare: func(ctx context.Context) error { return backend.Platform.(dispatch.Preparer).Prepare(ctx, s) }}, a)
	d.begin(begin)
	return prep
}

func (d *Documents) begin(begin []*preparation) {
	for _, prep := range begin {
		go d.runPreparation(prep)
	}
}

// runPreparation fetches a document. Preparer.Needs then returns the outcome.
func (d *Documents) runPreparation(prep *preparation) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchWithin)
	defer cancel()
	prepare := func() (err error) {
		defer dispatch.RecoverAsError(ctx, d.Log, "dispatch.runPreparation", &err)
		return prep.prepare(ctx)
	}
	if err := prepare(); err != nil {
		d.Log.DebugContext(ctx, "fetching a document failed", "host", prep.host, "error", err)
	}
	wakes, begin := d.Preparing.end(prep)
	for a := range wakes {
		d.Hub.Woken.Signal(a)
	}
	d.begin(begin)
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return "its address"
}

// AwaitFetched waits until the document that a service needs is available. The error is DocumentInvalid or
// DocumentUnreachable. It is DocumentUnreachable also if ctx ends before.
func (d *Documents) AwaitFetched(ctx context.Context, backend *dispatch.Backend, u dispatch.UserID,
	s dispatch.Service) error {
	p, can := backend.Platform.(dispatch.Preparer)
	if !can {
		return nil
	}
	for {
		address, err := p.Needs(s)
		if address == "" || err != nil {
			return err
		}
		over, underWay := (<-chan struct{})(nil), false
		if prep := d.Prepare(backend, u, "", s, address); prep != nil {
			over = prep.over
			_, underWay = d.Preparing.Late(prep)
		}
		late := time.NewTimer(fetchGrace) // an older document may be accepted by then
		select {
		case <-over:
		case <-late.C:
		case <-ctx.Done():
			err = NotFetched(address, underWay)
		}
		late.Stop()
		if err != nil {
			return err
		}
	}
}

// AwaitDocument calls fetched with a time limit of fetchWithin, for callers that can wait longer than a check.
func (d *Documents) AwaitDocument(ctx context.Context, backend *dispatch.Backend, u dispatch.UserID,
	s dispatch.Service) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	return d.AwaitFetched(ctx, backend, u, s)
}

// NotFetched returns the error for a document that is not available yet.
func NotFetched(address string, underWay bool) error {
	e := &dispatch.Error{Kind: dispatch.DocumentUnreachable, Op: "dispatch.prepare",
		Text: "The document that defines the application is still to be fetched from " + hostOf(address) +
			", after others."}
	if underWay {
		e.RetryAfter = dispatch.FirstPoll
		e.Text = "The document that defines the application is requested from " + hostOf(address) +
			", which has not answered yet."
	}
	return e
}
