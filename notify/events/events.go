// Package events notifies users' own servers when jobs end. The store keeps an outbox: it adds a delivery in the
// transaction that ends a job. A [Sender] takes due deliveries under a lease, posts them, and stores the result, so
// that each arrives at least once, also if a process dies at any point. Several processes share the work.
package events

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/mail"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	// MostHooks is how many hooks a user may have.
	MostHooks = 20

	interval     = time.Second      // between two looks for due deliveries
	afterFailure = 15 * time.Second // the same if the database did not answer
	atOnce       = 64               // hooks that one process serves at once
	ofOwner      = 32               // of them, those of one owner, whose receivers or platforms may take long
	round        = 64               // deliveries of one hook that are claimed at once
	parallel     = 32               // of them, sent at once
	writeWithin  = 10 * time.Second // a message, whose form may ask a platform
	tryWithin    = 10 * time.Second // one try to send it
	lease        = 55 * time.Second // longer than a round
	giveUp       = 24 * time.Hour   // since a delivery was to be sent
	first        = 5 * time.Second  // pause after a failure, which doubles
	longest      = time.Hour        // pause of a delivery
	longHold     = 5 * time.Minute  // pause of a hook none of whose deliveries arrive
	storing      = 10 * time.Second // storing the results of a round while the process stops
)

// Form writes the message about a delivery, and its media type. After an error the delivery is repeated, and its
// receiver is not to blame.
type Form func(context.Context, dispatch.Hook, dispatch.Delivery) (text []byte, mediaType string, err error)

// Secrets encrypts the secrets of hooks.
type Secrets interface {
	Seal(dispatch.Hook, dispatch.Secret) dispatch.Sealed
	Open(dispatch.Hook) (dispatch.Secret, error)
}

// Config is what a [Sender] needs.
type Config struct {
	Store   Outbox
	Secrets Secrets // nil: hooks have no secrets, and only those of one job or task can be created
	Client  *upstream.Client
	Source  string // of all events: a URI of this service
	Log     *slog.Logger
	// Forms write the messages of hooks of other kinds than Webhook.
	Forms map[dispatch.HookKind]Form
	// Mail sends the mails of hooks of kind Mail. nil: there are none.
	Mail *mail.Sender
	// Describe returns lines about the job or the task of a delivery for a mail; "" if it is no more. Optional.
	Describe func(context.Context, dispatch.UserID, dispatch.Delivery) string
	// Advice returns what a reason to wait for the owner means, and what the owner can do; "" for one that it does not
	// know. Optional.
	Advice func(dispatch.Attention) string
	// OnTry is called after each try, with whether the message arrived. Optional.
	OnTry func(arrived bool)
}

// Sender creates hooks and sends their deliveries.
type Sender struct {
	Config
	mu      sync.Mutex
	busy    map[string]bool         // hooks that this process serves
	sending map[dispatch.UserID]int // how many of them each owner has
}

// New returns a sender.
func New(c Config) *Sender {
	if c.OnTry == nil {
		c.OnTry = func(bool) {}
	}
	if c.Advice == nil {
		c.Advice = func(dispatch.Attention) string { return "" }
	}
	return &Sender{Config: c, busy: map[string]bool{}, sending: map[dispatch.UserID]int{}}
}

// Create stores a hook and returns its secret, which cannot be read again; "" for one that is notified by mail.
func (s *Sender) Create(ctx context.Context, u dispatch.UserID, n dispatch.Notify) (dispatch.Hook, dispatch.Secret,
	error) {
	if n.Kind == dispatch.Webhook {
		n.Secret = newSecret()
	}
	h, err := s.Target(u, n)
	if err != nil {
		return dispatch.Hook{}, "", err
	}
	if err := s.Store.AddHook(ctx, h, MostHooks); err != nil {
		return dispatch.Hook{}, "", err
	}
	h, err = s.Store.Hook(ctx, u, h.ID)
	return h, n.Secret, err
}

// Target returns the hook that a request asks for. It does not store it.
func (s *Sender) Target(u dispatch.UserID, n dispatch.Notify) (dispatch.Hook, error) {
	if n.Kind == dispatch.Mail {
		err := s.mailTarget(n)
		return dispatch.Hook{ID: newID(), Owner: u, Kind: n.Kind, URL: n.URL, Statuses: ofTasks(n.Statuses)}, err
	}
	if n.Kind != dispatch.Webhook && s.Forms[n.Kind] == nil {
		return dispatch.Hook{}, &dispatch.Error{Kind: dispatch.Unsupported, Op: "events.Target",
			Text: "This service does not send notifications of this kind."}
	}
	if err := s.Client.Receives("events.Target", n.URL); err != nil {
		return dispatch.Hook{}, err
	}
	h := dispatch.Hook{ID: newID(), Owner: u, Kind: n.Kind, URL: n.URL, Statuses: n.Statuses}
	if n.Secret == "" {
		return h, nil
	}
	if s.Secrets == nil {
		return dispatch.Hook{}, &dispatch.Error{Kind: dispatch.Unsupported, Op: "events.Target",
			Text: "This service cannot keep the secret that signs messages, because it has no vault. Its operator " +
				"must set vault.keys."}
	}
	if _, err := signingKey(n.Secret); err != nil {
		return dispatch.Hook{}, dispatch.InvalidBody("events.Target", "The secret cannot be used: "+err.Error(),
			"options", "notify", "secret")
	}
	h.Sealed = s.Secrets.Seal(h, n.Secret)
	return h, nil
}

func newID() string { return strings.ToLower(rand.Text()) }

// secretOf returns the secret of a hook; "" if it has none.
func (s *Sender) secretOf(h dispatch.Hook) (dispatch.Secret, error) {
	switch {
	case h.Sealed == dispatch.Sealed{}:
		return "", nil
	case s.Secrets == nil:
		return "", errors.New("the service no longer has the vault keys that sealed the secret of the hook")
	}
	return s.Secrets.Open(h)
}

// Run sends deliveries until ctx is done and those under way have ended.
func (s *Sender) Run(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	places := make(chan struct{}, atOnce)
	for ctx.Err() == nil {
		pause := interval
		due, err := s.Store.DueHooks(ctx, 2*atOnce, ofOwner)
		if err != nil && ctx.Err() == nil {
			s.Log.Log(ctx, dispatch.LogLevel(err), "due deliveries cannot be read", "error", err)
			pause = afterFailure
		}
		for _, h := range due {
			if !s.begin(h) {
				continue
			}
			select {
			case places <- struct{}{}:
				serving.Go(func() { defer func() { <-places }(); defer s.end(h); s.guard(ctx, h) })
				continue
			default:
			}
			s.end(h)
		}
		_ = dispatch.Sleep(ctx, pause)
	}
}

// begin reports whether this process does not serve the hook yet, and not too many of its owner.
func (s *Sender) begin(h dispatch.Hook) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[h.ID] || s.sending[h.Owner] >= ofOwner {
		return false
	}
	s.busy[h.ID] = true
	s.sending[h.Owner]++
	return true
}

func (s *Sender) end(h dispatch.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, h.ID)
	if s.sending[h.Owner]--; s.sending[h.Owner] == 0 {
		delete(s.sending, h.Owner)
	}
}

// guard serves a hook and logs why that failed.
func (s *Sender) guard(ctx context.Context, h dispatch.Hook) {
	caught := func() (err error) {
		defer dispatch.RecoverAsError(ctx, s.Log, "sending to a hook", &err)
		if h.Kind == dispatch.Mail {
			return s.serveMail(ctx, h)
		}
		return s.serve(ctx, h)
	}
	if err := caught(); err != nil && ctx.Err() == nil {
		s.Log.Log(ctx, dispatch.LogLevel(err), "sending to a hook failed", "hook", h.ID, "error", err)
	}
}

// A hook is sent this many rounds, none of which begins after the time, before others get their turn.
const (
	rounds = 64
	turn   = 15 * time.Second
)

// serve sends the due deliveries of a hook in rounds, as long as they arrive. A receiver that failed before is tried
// with one.
func (s *Sender) serve(ctx context.Context, h dispatch.Hook) error {
	secret, err := s.secretOf(h)
	came := time.Now()
	for range rounds {
		if ctx.Err() != nil || time.Since(came) > turn {
			return nil
		}
		most := round
		if h.Failures > 0 || err != nil {
			most = 1
		}
		claimed, failed := s.Store.ClaimDeliveries(ctx, h.ID, lease, most)
		if failed != nil || len(claimed) == 0 {
			return failed
		}
		begun := time.Now()
		tries := s.send(ctx, h, secret, err, claimed)
		h = settle(h, tries, claimed[0].Tried.Add(time.Since(begun)))
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
		failed = s.Store.SettleDeliveries(saving, h, deliveriesOf(tries))
		cancel()
		if failed != nil || h.Gone || h.Failures > 0 {
			return errors.Join(failed, err)
		}
	}
	return nil
}

// send tries all deliveries and returns the results in the same order.
func (s *Sender) send(ctx context.Context, h dispatch.Hook, secret dispatch.Secret, broken error,
	claimed []dispatch.Delivery) []try {
	tries := make([]try, len(claimed))
	var all sync.WaitGroup
	places := make(chan struct{}, parallel)
	for i, d := range claimed {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			switch {
			case broken != nil:
				tries[i] = try{Delivery: d, err: broken}
			case ctx.Err() != nil:
				tries[i] = try{Delivery: d, unsent: true}
			default:
				tries[i] = s.post(context.WithoutCancel(ctx), h, secret, d)
			}
		})
	}
	all.Wait()
	return tries
}

// try is a delivery and what came of sending it once.
type try struct {
	dispatch.Delivery
	unsent    bool // the process stops
	unwritten bool // there was no message to send, which says nothing about the receiver
	status    int
	wait      time.Duration // for which the receiver asks
	err       error         // nil: the message arrived
}

func (s *Sender) post(ctx context.Context, h dispatch.Hook, secret dispatch.Secret, d dispatch.Delivery) (t try) {
	t = try{Delivery: d, unwritten: true}
	defer dispatch.RecoverAsError(ctx, s.Log, "sending to a hook", &t.err)
	text, header, err := s.write(ctx, h, secret, d)
	if err != nil {
		s.Log.InfoContext(ctx, "message to a hook not written", "hook", h.ID, "event", d.Event.String(), "error", err)
		t.err = err
		return t
	}
	t.unwritten = false
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	t.status, t.wait, t.err = s.Client.Deliver(ctx, upstream.Delivery{Op: "events.post", URL: h.URL, Header: header,
		Body: text})
	s.OnTry(t.err == nil)
	return t
}

// write returns the message about a delivery with its headers.
func (s *Sender) write(ctx context.Context, h dispatch.Hook, secret dispatch.Secret, d dispatch.Delivery) ([]byte,
	http.Header, error) {
	form := s.Forms[h.Kind]
	if h.Kind == dispatch.Webhook {
		form = func(context.Context, dispatch.Hook, dispatch.Delivery) ([]byte, string, error) {
			text, err := s.body(d)
			return text, eventMedia, err
		}
	}
	if form == nil {
		return nil, nil, fmt.Errorf("this process does not write messages of kind %s", h.Kind)
	}
	writing, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	text, media, err := form(writing, h, d)
	if err != nil {
		return nil, nil, err
	}
	header, err := headers(secret, d.Event.String(), time.Now(), text)
	header.Set("Content-Type", media)
	return text, header, err
}

func deliveriesOf(tries []try) []dispatch.Delivery {
	all := make([]dispatch.Delivery, len(tries))
	for i, t := range tries {
		all[i] = t.Delivery
	}
	return all
}
