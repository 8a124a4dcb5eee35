package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Remote is the server of a platform under test. It follows its protocol, can be made to deviate, and knows what really
// happened. It accepts any number of jobs and finishes each at once, unless Hold was called.
type Remote interface {
	// Token returns a token that the server accepts, if it needs any.
	Token() dispatch.Token
	// Service accepts the parameters integer, number, nothing (null), string and geometry, all optional.
	Service() dispatch.Service
	// Abilities lists the abilities that the adapter must have, no more and no less, sorted: "cancel", "list", "logs",
	// "probe", "remove", "sync".
	Abilities() []string
	// Words maps all status words of the protocol to their meaning.
	Words() map[string]dispatch.Status

	// Sent returns the parameters with which a job was created.
	Sent(dispatch.Ref) map[string]json.RawMessage
	// Counts counts what really happened to all jobs together.
	Counts() (created, started, canceled int)

	// RunForAnHour makes jobs that are started from now on run for an hour.
	RunForAnHour()
	// SetStatus makes a job report a status word, whatever its true status.
	SetStatus(r dispatch.Ref, word string)
	// Fail makes every request of a kind go wrong from now on. The zero Failure ends that.
	Fail(Call, Failure)
}

// Call is a kind of request to a platform.
type Call string

const (
	CallAny     Call = "any"
	CallSubmit  Call = "submit" // the first step: it creates, and on a platform of one step starts
	CallStart   Call = "start"  // the second step, if there is one
	CallStatus  Call = "status"
	CallResults Call = "results"
	CallList    Call = "list"
	CallCancel  Call = "cancel"
	CallSync    Call = "sync"
)

// Failure is a way in which a request goes wrong.
type Failure struct {
	Status     int           // in place of the platform's response
	RetryAfter time.Duration // whole seconds
	Redirect   string        // with a Status of 3xx
	Cut        bool          // the connection is closed without a response
	After      bool          // the request takes effect first
	Page       bool          // an HTML page in place of the body
	Endless    bool          // the body never ends
	Nameless   bool          // the headers that name a new job are missing
	Latency    time.Duration
}

// TestPlatform checks an adapter against the contract of [dispatch.Platform]. Each call of open returns a new adapter
// with its own server.
func TestPlatform(t *testing.T, open func(t *testing.T) (dispatch.Platform, Remote)) {
	for name, test := range map[string]func(*platformTest){
		"one run, from submit to results":              (*platformTest).wholeRun,
		"parameters arrive digit for digit":            (*platformTest).parameters,
		"abilities are those that are pinned":          (*platformTest).abilities,
		"every status word is understood":              (*platformTest).words,
		"a failed submit says what it means":           (*platformTest).failedSubmits,
		"a failed start says what it means":            (*platformTest).failedStarts,
		"a failed read says what it means":             (*platformTest).failedReads,
		"an answer that names no job":                  (*platformTest).nameless,
		"a submit that was cut happened once or never": (*platformTest).cut,
		"a known job is started once":                  (*platformTest).known,
		"results before the end are a conflict":        (*platformTest).early,
		"a done context sends nothing":                 (*platformTest).done,
		"a context that ends is obeyed":                (*platformTest).deadline,
		"many at once":                                 (*platformTest).many,
		"a token stays at home":                        (*platformTest).redirect,
		"a listing tells all":                          (*platformTest).listing,
		"what is canceled ends":                        (*platformTest).cancel,
		"what is removed is gone":                      (*platformTest).remove,
		"a synchronous run gives its bytes":            (*platformTest).sync,
		"a run logs":                                   (*platformTest).logs,
		"a probe tells well from ill":                  (*platformTest).probe,
	} {
		t.Run(name, func(t *testing.T) {
			p, r := open(t)
			test(&platformTest{t, p, r})
		})
	}
}

type platformTest struct {
	*testing.T
	p dispatch.Platform
	r Remote
}

// sent holds the parameters of every request: values that would change if they were decoded on the way.
var sent = map[string]string{
	"integer":  `12345678901234567890`,
	"number":   `1.10`,
	"nothing":  `null`,
	"string":   `"Zürich < 5 & more"`,
	"geometry": `{"type":"Polygon","coordinates":[[[4.80,51.2],[4.9,51.2],[4.9,51.10],[4.80,51.2]]]}`,
}

func (t *platformTest) submission(tag string) dispatch.Submission {
	var members []string // not by json.Marshal, which escapes "<"
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		members = append(members, fmt.Sprintf("%q:%s", name, sent[name]))
	}
	return dispatch.Submission{Tag: tag, Request: dispatch.Request{
		Title: "Suite <1>", Service: t.r.Service(), Format: "gtiff",
		Parameters: json.RawMessage("{" + strings.Join(members, ",") + "}"),
	}}
}

// start submits until the job has started, and returns its ref.
func (t *platformTest) start(tag string) dispatch.Ref {
	t.Helper()
	s := t.submission(tag)
	steps := 1
	if t.p.TwoStep() {
		steps = 2
	}
	for i := range steps {
		step, err := t.p.Submit(t.Context(), t.r.Token(), s)
		if err != nil || step.Ref == (dispatch.Ref{}) || step.Started != (i == steps-1) {
			t.Fatalf("step %d of %d: %+v, %v", i+1, steps, step, err)
		}
		if s.Ref != (dispatch.Ref{}) && s.Ref != step.Ref {
			t.Fatalf("the start of %v gave %v", s.Ref, step.Ref)
		}
		s.Ref = step.Ref
	}
	return s.Ref
}

func (t *platformTest) happened(created, started int) {
	t.Helper()
	if c, s, _ := t.r.Counts(); c != created || s != started {
		t.Errorf("%d jobs were created and %d runs started, want %d and %d", c, s, created, started)
	}
}

// failed checks an error: it has one of the kinds, and shows neither the token nor a page.
func (t *platformTest) failed(what string, err error, kinds ...dispatch.Kind) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one of %v", what, kinds)
		return
	}
	if _, ok := err.(*dispatch.Error); !ok {
		t.Errorf("%s: the error is %T, want *dispatch.Error", what, err)
	}
	if !slices.Contains(kinds, dispatch.KindOf(err)) {
		t.Errorf("%s: %v, want one of %v", what, err, kinds)
	}
	secret := t.r.Token().Secret.Reveal()
	if all := fmt.Sprintf("%v %+v %#v %s", err, err, err, dispatch.TextFor(err)); secret != "" &&
		strings.Contains(all, secret) {
		t.Errorf("%s: the error shows the token", what)
	}
	if text := dispatch.TextFor(err); strings.ContainsAny(text, "<>") || len(text) > 2000 {
		t.Errorf("%s: the text is not plain or not short: %.100q", what, text)
	}
}

func (t *platformTest) pause(what string, err error, want time.Duration) {
	t.Helper()
	if e, ok := err.(*dispatch.Error); ok && e.RetryAfter != want {
		t.Errorf("%s: RetryAfter %v, want %v", what, e.RetryAfter, want)
	}
}

func (t *platformTest) wholeRun() {
	ref := t.start("run.1.1")
	report, err := t.p.Status(t.Context(), t.r.Token(), ref)
	if err != nil || report.Status != dispatch.Finished {
		t.Fatalf("Status = %+v, %v", report, err)
	}
	doc, err := t.p.Results(t.Context(), t.r.Token(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var collection struct {
		Type    string `json:"type"`
		Version string `json:"stac_version"`
		ID      string `json:"id"`
		Extent  *struct {
			Spatial  struct{ BBox [][]float64 }
			Temporal struct{ Interval [][]*string }
		}
		Assets map[string]struct {
			Href string `json:"href"`
		} `json:"assets"`
	}
	if err := json.Unmarshal(doc, &collection); err != nil || collection.Type != "Collection" ||
		collection.Version == "" || collection.ID == "" {
		t.Errorf("results are no STAC Collection: %v %.500s", err, doc)
	}
	if collection.Extent == nil || len(collection.Extent.Spatial.BBox) == 0 ||
		len(collection.Extent.Temporal.Interval) == 0 {
		t.Errorf("the collection has no extent: %.500s", doc)
	}
	if len(collection.Assets) == 0 {
		t.Errorf("the collection has no assets: %.500s", doc)
	}
	for name, a := range collection.Assets {
		if a.Href == "" {
			t.Errorf("asset %s has no href", name)
		}
	}
	t.happened(1, 1)
}

func (t *platformTest) parameters() {
	got := t.r.Sent(t.start("run.1.1"))
	for name, want := range sent {
		if string(got[name]) != want {
			t.Errorf("%s arrived as %s, sent %s", name, got[name], want)
		}
	}
}

func (t *platformTest) abilities() {
	var got []string
	for _, ability := range []struct {
		name string
		has  bool
	}{
		{"cancel", able[dispatch.Canceler](t.p)},
		{"list", able[dispatch.Lister](t.p)},
		{"logs", able[dispatch.Logger](t.p)},
		{"probe", able[dispatch.Prober](t.p)},
		{"remove", able[dispatch.Remover](t.p)},
		{"sync", able[dispatch.SyncRunner](t.p)},
	} {
		if ability.has {
			got = append(got, ability.name)
		}
	}
	if want := t.r.Abilities(); !slices.Equal(got, want) {
		t.Errorf("can %v, want %v", got, want)
	}
}

func able[A any](p dispatch.Platform) bool {
	_, ok := p.(A)
	return ok
}

func (t *platformTest) words() {
	ref := t.start("run.1.1")
	words := t.r.Words()
	words["perplexed"] = dispatch.Unknown
	for word, want := range words {
		t.r.SetStatus(ref, word)
		if got, err := t.p.Status(t.Context(), t.r.Token(), ref); got.Status != want || err != nil {
			t.Errorf("%q is %q, %v, want %q", word, got.Status, err, want)
		}
	}
}

type mishap struct {
	name string
	Failure
	want dispatch.Kind
}

// onSubmit returns the kinds that m may have for a submit: a platform that does not find something refers to the
// request.
func (m mishap) onSubmit() []dispatch.Kind {
	if m.Status == 404 {
		return []dispatch.Kind{dispatch.NotFound, dispatch.Invalid}
	}
	return []dispatch.Kind{m.want}
}

// mishaps are those after which the outcome of the request is known.
var mishaps = []mishap{
	{"400", Failure{Status: 400}, dispatch.Invalid},
	{"401", Failure{Status: 401}, dispatch.SignInRequired},
	{"403", Failure{Status: 403}, dispatch.Forbidden},
	{"404", Failure{Status: 404}, dispatch.NotFound},
	{"429", Failure{Status: 429, RetryAfter: 7 * time.Second}, dispatch.Busy},
	{"503 with Retry-After", Failure{Status: 503, RetryAfter: 7 * time.Second}, dispatch.Busy},
}

// doubts are those after which the request may have had an effect.
var doubts = []struct {
	name string
	Failure
}{
	{"500", Failure{Status: 500}},
	{"502 with a page", Failure{Status: 502, Page: true}},
	{"503", Failure{Status: 503}},
	{"504", Failure{Status: 504, After: true}},
	{"cut before", Failure{Cut: true}},
	{"cut after", Failure{Cut: true, After: true}},
}

func (t *platformTest) failedSubmits() {
	for _, m := range mishaps {
		t.r.Fail(CallSubmit, m.Failure)
		step, err := t.p.Submit(t.Context(), t.r.Token(), t.submission("run.1.1"))
		t.failed(m.name, err, m.onSubmit()...)
		t.pause(m.name, err, m.RetryAfter)
		if step.Ref != (dispatch.Ref{}) || step.Started || step.Result != nil {
			t.Errorf("%s: %+v", m.name, step)
		}
	}
	t.happened(0, 0)
	// An inert job may be created again, so a two-step platform may call a lost create repeatable.
	doubtful := []dispatch.Kind{dispatch.Uncertain}
	if t.p.TwoStep() {
		doubtful = append(doubtful, dispatch.Unavailable, dispatch.Busy)
	}
	for _, m := range doubts {
		t.r.Fail(CallSubmit, m.Failure)
		_, err := t.p.Submit(t.Context(), t.r.Token(), t.submission("run.1.1"))
		t.failed(m.name, err, doubtful...)
	}
}

func (t *platformTest) failedStarts() {
	if !t.p.TwoStep() {
		return // there is no second step
	}
	s := t.submission("run.1.1")
	step, err := t.p.Submit(t.Context(), t.r.Token(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Ref = step.Ref
	for _, m := range mishaps {
		t.r.Fail(CallStart, m.Failure)
		step, err := t.p.Submit(t.Context(), t.r.Token(), s)
		t.failed(m.name, err, m.want)
		t.pause(m.name, err, m.RetryAfter)
		if step.Started {
			t.Errorf("%s: it says it started", m.name)
		}
	}
	t.happened(1, 0)
	for _, m := range doubts {
		t.r.Fail(CallStart, m.Failure)
		_, err := t.p.Submit(t.Context(), t.r.Token(), s)
		t.failed(m.name, err, dispatch.Uncertain)
	}
}

func (t *platformTest) failedReads() {
	ref := t.start("run.1.1")
	reads := map[Call]func() error{
		CallStatus: func() error {
			report, err := t.p.Status(t.Context(), t.r.Token(), ref)
			if err != nil && report.Status != "" {
				t.Errorf("an error, and the status %q", report.Status)
			}
			return err
		},
		CallResults: func() error { _, err := t.p.Results(t.Context(), t.r.Token(), ref); return err },
	}
	for call, read := range reads {
		for _, m := range mishaps {
			if call == CallResults && m.Status == 404 {
				continue // also how a platform says that there are none yet
			}
			t.r.Fail(call, m.Failure)
			err := read()
			t.failed(string(call)+": "+m.name, err, m.want)
			t.pause(string(call)+": "+m.name, err, m.RetryAfter)
		}
		for _, m := range doubts {
			t.r.Fail(call, m.Failure)
			t.failed(string(call)+": "+m.name, read(), dispatch.Unavailable, dispatch.Busy)
		}
		t.r.Fail(call, Failure{Endless: true})
		if err := read(); err != nil || call == CallStatus { // an endless result may become a link
			t.failed(string(call)+": endless", err, dispatch.BadUpstream)
		}
		t.r.Fail(call, Failure{})
		if err := read(); err != nil {
			t.Errorf("%s: when all is well: %v", call, err)
		}
	}
	t.r.Fail(CallStatus, Failure{Page: true, After: true})
	t.failed("status: a page", reads[CallStatus](), dispatch.BadUpstream)
	t.happened(1, 1)
}

// nameless checks a response that accepts a job without naming it: neither a success, nor reported as without effect.
func (t *platformTest) nameless() {
	t.r.Fail(CallSubmit, Failure{Nameless: true, Page: true, After: true})
	step, err := t.p.Submit(t.Context(), t.r.Token(), t.submission("run.1.1"))
	t.failed("without a name", err, dispatch.Uncertain, dispatch.BadUpstream)
	if step.Ref != (dispatch.Ref{}) || step.Started && t.p.TwoStep() {
		t.Errorf("%+v", step)
	}
}

func (t *platformTest) cut() {
	for _, after := range []bool{false, true} {
		before, _, _ := t.r.Counts()
		t.r.Fail(CallSubmit, Failure{Cut: true, After: after})
		if _, err := t.p.Submit(t.Context(), t.r.Token(), t.submission("run.1.1")); err == nil {
			t.Error("no error")
		}
		created, _, _ := t.r.Counts()
		if want := map[bool]int{false: 0, true: 1}[after]; created-before != want {
			t.Errorf("after the effect %v: %d jobs were created, want %d: a POST was repeated", after, created-before,
				want)
		}
	}
}

func (t *platformTest) known() {
	if !t.p.TwoStep() {
		return // everything known has started
	}
	t.r.RunForAnHour()
	s := t.submission("run.1.1")
	step, err := t.p.Submit(t.Context(), t.r.Token(), s)
	if err != nil || step.Started {
		t.Fatalf("%+v, %v", step, err)
	}
	s.Ref = step.Ref
	t.r.Fail(CallStart, Failure{Status: 503, RetryAfter: time.Second})
	if _, err := t.p.Submit(t.Context(), t.r.Token(), s); err == nil {
		t.Error("no error")
	}
	t.r.Fail(CallStart, Failure{})
	for range 2 { // a running job must not be started a second time
		if step, err := t.p.Submit(t.Context(), t.r.Token(), s); err != nil || !step.Started || step.Ref != s.Ref {
			t.Errorf("%+v, %v", step, err)
		}
	}
	t.happened(1, 1)
}

func (t *platformTest) early() {
	t.r.RunForAnHour()
	_, err := t.p.Results(t.Context(), t.r.Token(), t.start("run.1.1"))
	t.failed("results", err, dispatch.Conflict)
}

func (t *platformTest) done() {
	ref := t.start("run.1.1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := t.p.Submit(ctx, t.r.Token(), t.submission("run.2.1"))
	t.failed("submit", err, dispatch.Unavailable)
	_, err = t.p.Status(ctx, t.r.Token(), ref)
	t.failed("status", err, dispatch.Unavailable)
	_, err = t.p.Results(ctx, t.r.Token(), ref)
	t.failed("results", err, dispatch.Unavailable)
	t.happened(1, 1)
}

func (t *platformTest) deadline() {
	ref := t.start("run.1.1")
	within := func(call Call, what func(context.Context) error, kinds ...dispatch.Kind) {
		t.r.Fail(call, Failure{Latency: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough for the request to be sent
		defer cancel()
		begin := time.Now()
		t.failed(string(call), what(ctx), kinds...)
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s: returned after %v, long after its context was done", call, took)
		}
		t.r.Fail(call, Failure{})
	}
	within(CallStatus, func(ctx context.Context) error {
		_, err := t.p.Status(ctx, t.r.Token(), ref)
		return err
	}, dispatch.Unavailable)
	kinds := []dispatch.Kind{dispatch.Uncertain}
	if t.p.TwoStep() {
		kinds = append(kinds, dispatch.Unavailable)
	}
	within(CallSubmit, func(ctx context.Context) error {
		_, err := t.p.Submit(ctx, t.r.Token(), t.submission("run.2.1"))
		return err
	}, kinds...)
}

func (t *platformTest) many() {
	var wg sync.WaitGroup
	refs := make([]dispatch.Ref, 32)
	begin := make(chan struct{})
	for i := range refs {
		wg.Go(func() {
			<-begin
			s := t.submission(fmt.Sprintf("run.%d.1", i))
			step, err := t.p.Submit(t.Context(), t.r.Token(), s)
			if s.Ref = step.Ref; err == nil && t.p.TwoStep() {
				step, err = t.p.Submit(t.Context(), t.r.Token(), s)
			}
			if err != nil || !step.Started {
				t.Errorf("%+v, %v", step, err)
			}
			refs[i] = s.Ref
			if report, err := t.p.Status(t.Context(), t.r.Token(), s.Ref); err != nil ||
				report.Status != dispatch.Finished {
				t.Errorf("%v: %+v, %v", s.Ref, report, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	distinct := map[dispatch.Ref]bool{}
	for _, r := range refs {
		distinct[r] = true
	}
	if len(distinct) != len(refs) {
		t.Errorf("%d names for %d jobs", len(distinct), len(refs))
	}
	t.happened(32, 32)
}

// redirect redirects every call: the token must not reach the target.
func (t *platformTest) redirect() {
	ref := t.start("run.1.1")
	t.r.RunForAnHour()
	running := t.start("run.2.1")
	var arrived atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if secret := t.r.Token().Secret.Reveal(); r.Header.Get("Authorization") != "" || secret != "" &&
			strings.Contains(r.URL.String(), secret) {
			arrived.Add(1)
		}
	}))
	defer elsewhere.Close()
	calls := map[Call]func() error{
		CallSubmit: func() error {
			_, err := t.p.Submit(t.Context(), t.r.Token(), t.submission("run.3.1"))
			return err
		},
		CallStatus:  func() error { _, err := t.p.Status(t.Context(), t.r.Token(), ref); return err },
		CallResults: func() error { _, err := t.p.Results(t.Context(), t.r.Token(), ref); return err },
	}
	if c, ok := t.p.(dispatch.Canceler); ok {
		calls[CallCancel] = func() error { return c.Cancel(t.Context(), t.r.Token(), running) }
	}
	if l, ok := t.p.(dispatch.Lister); ok {
		calls[CallList] = func() error { _, err := t.collect(l, 1); return err }
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		for call, do := range calls {
			t.r.Fail(call, Failure{Status: status, Redirect: elsewhere.URL + "/elsewhere"})
			if do() == nil && call != CallResults { // results may lie elsewhere, and are fetched there without a token
				t.Errorf("%s: a redirect by %d counts as success", call, status)
			}
			t.r.Fail(call, Failure{})
		}
	}
	if n := arrived.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere with the token", n)
	}
}

// collect returns a listing, or its first n entries.
func (t *platformTest) collect(l dispatch.Lister, n int) (all []dispatch.Listed, err error) {
	base, err := t.p.Base(t.r.Service())
	if err != nil {
		t.Fatal(err)
	}
	for one, err := range l.List(t.Context(), t.r.Token(), base) {
		if err != nil {
			return all, err
		}
		if all = append(all, one); len(all) == n {
			break
		}
	}
	return all, nil
}

func (t *platformTest) listing() {
	l, ok := t.p.(dispatch.Lister)
	if !ok {
		return
	}
	const n = 57
	tags := map[dispatch.Ref]string{}
	for i := range n {
		tag := fmt.Sprintf("run.%d.1", i)
		tags[t.start(tag)] = tag
	}
	all, err := t.collect(l, 10*n)
	if err != nil || len(all) != n {
		t.Fatalf("%d listed, %v, want %d", len(all), err, n)
	}
	for _, one := range all {
		tag, ok := tags[one.Ref]
		if !ok || one.Report.Status != dispatch.Finished || one.Created.IsZero() {
			t.Errorf("listed %+v", one)
		}
		if one.Tag != tag && (one.Tag != "" || t.p.TwoStep()) { // a one-step platform may not store tags
			t.Errorf("%v has the tag %q, want %q", one.Ref, one.Tag, tag)
		}
		delete(tags, one.Ref)
	}
	if few, err := t.collect(l, 3); err != nil || len(few) != 3 {
		t.Errorf("a listing whose reader stops early: %d, %v", len(few), err)
	}
	for _, m := range mishaps {
		t.r.Fail(CallList, m.Failure)
		_, err := t.collect(l, n)
		if m.Status != 400 && m.Status != 404 { // an adapter may take those for "no listing"
			t.failed("list: "+m.name, err, m.want)
		} else if err == nil {
			t.Errorf("list: %s: no error", m.name)
		}
	}
	t.r.Fail(CallList, Failure{Page: true, After: true})
	_, err = t.collect(l, n)
	t.failed("list: a page", err, dispatch.BadUpstream)
}

func (t *platformTest) cancel() {
	c, ok := t.p.(dispatch.Canceler)
	if !ok {
		return
	}
	t.r.RunForAnHour()
	ref := t.start("run.1.1")
	for range 2 {
		if err := c.Cancel(t.Context(), t.r.Token(), ref); err != nil && !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("Cancel: %v", err)
		}
	}
	report, err := t.p.Status(t.Context(), t.r.Token(), ref)
	stopped := report.Status == dispatch.Canceled || report.Status == dispatch.Accepted
	if err != nil && !dispatch.Is(err, dispatch.NotFound) || err == nil && !stopped {
		t.Errorf("after Cancel: %+v, %v", report, err)
	}
	if _, _, canceled := t.r.Counts(); canceled == 0 {
		t.Error("nothing was canceled")
	}
	t.r.Fail(CallCancel, Failure{Status: 401})
	t.failed("cancel", c.Cancel(t.Context(), t.r.Token(), t.start("run.2.1")), dispatch.SignInRequired)
}

func (t *platformTest) remove() {
	remover, ok := t.p.(dispatch.Remover)
	if !ok {
		return
	}
	ref, other := t.start("run.1.1"), t.start("run.2.1")
	if err := remover.Remove(t.Context(), t.r.Token(), ref); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	_, err := t.p.Status(t.Context(), t.r.Token(), ref)
	t.failed("status of a removed job", err, dispatch.NotFound)
	_, err = t.p.Results(t.Context(), t.r.Token(), ref)
	// to some platforms, no results are results that are not there yet
	t.failed("results of a removed job", err, dispatch.NotFound, dispatch.Conflict)
	t.failed("removing again", remover.Remove(t.Context(), t.r.Token(), ref), dispatch.NotFound)
	if report, err := t.p.Status(t.Context(), t.r.Token(), other); err != nil || report.Status != dispatch.Finished {
		t.Errorf("the other job: %+v, %v", report, err)
	}
	t.r.Fail(CallCancel, Failure{Status: 401})
	t.failed("remove", remover.Remove(t.Context(), t.r.Token(), other), dispatch.SignInRequired)
	t.r.Fail(CallCancel, Failure{Status: 501})
	t.failed("remove where that is not offered", remover.Remove(t.Context(), t.r.Token(), other), dispatch.Unsupported)
}

func (t *platformTest) sync() {
	s, ok := t.p.(dispatch.SyncRunner)
	if !ok {
		return
	}
	result, err := s.RunSync(t.Context(), t.r.Token(), t.submission("run.1.1"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(result.Body)
	if err := result.Body.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err != nil || len(data) == 0 || result.ContentType == "" {
		t.Errorf("%d bytes of %q, %v", len(data), result.ContentType, err)
	}
	for _, m := range mishaps {
		t.r.Fail(CallSync, m.Failure)
		result, err := s.RunSync(t.Context(), t.r.Token(), t.submission("run.1.1"))
		t.failed("sync: "+m.name, err, m.onSubmit()...)
		if err == nil {
			result.Body.Close()
		}
	}
}

func (t *platformTest) logs() {
	l, ok := t.p.(dispatch.Logger)
	if !ok {
		return
	}
	entries, err := l.Logs(t.Context(), t.r.Token(), t.start("run.1.1"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(entries, func(a, b dispatch.LogEntry) int { return a.Time.Compare(b.Time) }) {
		t.Errorf("not oldest first: %v", entries)
	}
	for _, e := range entries {
		if e.Message == "" || e.Level == "" {
			t.Errorf("entry %+v", e)
		}
	}
}

func (t *platformTest) probe() {
	p, ok := t.p.(dispatch.Prober)
	if !ok {
		return
	}
	if err := p.Probe(t.Context(), t.r.Token()); err != nil {
		t.Errorf("a healthy platform: %v", err)
	}
	t.r.Fail(CallAny, Failure{Status: 500})
	t.failed("probe", p.Probe(t.Context(), t.r.Token()), dispatch.Unavailable)
}
