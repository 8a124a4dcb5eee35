// Package operator is the interface for operators, on the private listener: what is stuck, holds of platforms and
// accounts, the history of a job, and its end by force. It serves only who can read the database, on the machine of the
// broker, and each change is audited.
package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Header names the operator, for the audit. A page in a browser cannot send it to another origin.
const Header = "Eodispatch-Operator"

const (
	mostBody   = 64 << 10
	mostJobs   = 1000
	mostEvents = 10_000
	mostEnded  = 100_000
)

// Operations is what a store keeps for operators.
type Operations interface {
	// HoldScope stores a hold, in place of an earlier one of its scope, and wakes the accounts that it concerns.
	HoldScope(context.Context, dispatch.OperatorHold) error
	// ReleaseScope ends the hold of a scope, and wakes the accounts that it concerned. NotFound: there is none.
	ReleaseScope(ctx context.Context, scope string) error
	// HasAccount reports whether jobs of an account were ever accepted.
	HasAccount(context.Context, dispatch.Account) (bool, error)
	// OperatorHolds returns all holds, by scope.
	OperatorHolds(context.Context) ([]dispatch.OperatorHold, error)
	// Troubled returns jobs at platforms that need attention, and with setAside those that were set aside, those first
	// whose phase or status changed longest ago, n at most.
	Troubled(ctx context.Context, setAside bool, n int) ([]dispatch.Job, error)
	// Events returns what happened to a job, oldest first, n at most.
	Events(ctx context.Context, id dispatch.JobID, n int) ([]dispatch.JobEvent, error)
}

// Config is what the interface needs.
type Config struct {
	Store Operations
	// End ends a job, see [broker.Broker.EndJob].
	End func(ctx context.Context, id dispatch.JobID, reason string) (dispatch.Job, error)
	// Hurry notifies the engine that accounts may be due at once; nil: it finds them by itself soon.
	Hurry     func()
	Platforms []string // names
	// Key is what requests must be signed with, see [Sign]. Whoever can read the database knows it.
	Key dispatch.Secret
	Log *slog.Logger
	Now func() time.Time // default time.Now
}

// Job is a job that needs attention, as operators see it.
type Job struct {
	ID        int64     `json:"id"`
	Task      int64     `json:"task,omitempty"`
	Account   string    `json:"account"`
	Owner     string    `json:"owner"`
	Phase     string    `json:"phase"`
	Status    string    `json:"status"`
	Attention string    `json:"attention,omitempty"`
	Text      string    `json:"text,omitempty"`
	Ref       string    `json:"ref,omitempty"` // its identifier at the platform
	Moved     time.Time `json:"moved"`         // when phase or status last changed
}

// Event is one thing that happened to a job.
type Event struct {
	At        time.Time `json:"at"`
	What      string    `json:"what"`
	Phase     string    `json:"phase"`
	Status    string    `json:"status"`
	Attention string    `json:"attention,omitempty"`
	Attempt   int       `json:"attempt,omitempty"`
	Outcome   string    `json:"outcome,omitempty"`
	Took      float64   `json:"took,omitempty"` // seconds
	Detail    string    `json:"detail,omitempty"`
}

// Hold is a hold by an operator.
type Hold struct {
	Scope  string    `json:"scope"` // a platform's name, or an account: PLATFORM/shared, PLATFORM/open or PLATFORM/USER
	Notice string    `json:"notice"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// Ends asks for the end of all jobs of a scope, see [Hold], whose submission is unknown.
type Ends struct {
	Scope  string `json:"scope"`
	Reason string `json:"reason"`
}

// Ended is how many jobs were ended, and how many go on because they changed meanwhile.
type Ended struct {
	Ended int `json:"ended"`
	Left  int `json:"left"`
}

// Fault is a response that is not a success.
type Fault struct {
	Error string `json:"error"`
}

type server struct {
	Config
	accepted *requests
}

// Handler returns the interface, below /operator/.
func Handler(c Config) http.Handler {
	s := server{c, &requests{sent: map[string]time.Time{}}}
	if s.Now == nil {
		s.Now = time.Now
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /operator/jobs", s.answer(s.jobs))
	mux.HandleFunc("GET /operator/jobs/{id}/events", s.answer(s.events))
	mux.HandleFunc("POST /operator/jobs/{id}/end", s.answer(s.end))
	mux.HandleFunc("POST /operator/ends", s.answer(s.endUnknown))
	mux.HandleFunc("GET /operator/holds", s.answer(s.holds))
	mux.HandleFunc("POST /operator/holds", s.answer(s.hold))
	mux.HandleFunc("DELETE /operator/holds", s.answer(s.release))
	return mux
}

// answer returns a handler that serves the machine itself, in JSON.
func (s server) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		id, err := s.permitted(r)
		result, status := any(nil), http.StatusOK
		if err == nil {
			result, err = f(r)
		}
		if err != nil {
			status, result = statusOf(err), Fault{cmp.Or(dispatch.TextFor(err), "The broker failed; see its log.")}
			s.Log.WarnContext(r.Context(), "a request of an operator was refused", "operator", r.Header.Get(Header),
				"path", r.URL.Path, "error", err)
		}
		text, err := dispatch.Encode(result)
		if err != nil {
			panic(err) // a bug: only JSON values are encoded
		}
		text = append(text, '\n')
		if id != "" {
			w.Header().Set(proofHeader, proofOf(s.Key, answerText(id, status, text)))
		}
		w.WriteHeader(status)
		_, _ = w.Write(text) // fails if the client is gone
	}
}

// proxied are the headers of which a proxy sends one.
var proxied = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// permitted returns an error unless the request comes from this machine, is addressed to it, is signed with the key,
// and names an operator. The address keeps out pages whose name leads here; the key, what a proxy on this machine
// passes on for others. id identifies a request that is signed.
func (s server) permitted(r *http.Request) (id string, err error) {
	from, unknown := netip.ParseAddrPort(r.RemoteAddr)
	host, _, split := net.SplitHostPort(r.Host)
	if split != nil {
		host = r.Host
	}
	to, _ := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case unknown != nil || !from.Addr().Unmap().IsLoopback() || host != "localhost" && !to.Unmap().IsLoopback():
		return "", &dispatch.Error{Kind: dispatch.Forbidden, Op: "operator",
			Text: "Commands for operators work only on the broker's own machine: run the command there, or in its " +
				"container."}
	case slices.ContainsFunc(proxied, func(name string) bool { return r.Header.Get(name) != "" }):
		return "", &dispatch.Error{Kind: dispatch.Forbidden, Op: "operator",
			Text: "Commands for operators do not work through a proxy."}
	}
	if id, err = s.verified(r, s.Now()); err == nil && strings.TrimSpace(r.Header.Get(Header)) == "" {
		err = invalid("The header " + Header + " must name the operator.")
	}
	return id, err
}

func statusOf(err error) int {
	switch dispatch.KindOf(err) {
	case dispatch.NotFound:
		return http.StatusNotFound
	case dispatch.Forbidden:
		return http.StatusForbidden
	case dispatch.Conflict:
		return http.StatusConflict
	case dispatch.Invalid:
		return http.StatusUnprocessableEntity
	case dispatch.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// audit logs what an operator changed.
func (s server) audit(r *http.Request, action string, more ...any) {
	s.Log.InfoContext(r.Context(), "audit", append([]any{"action", action, "operator", r.Header.Get(Header)},
		more...)...)
}

func (s server) jobs(r *http.Request) (any, error) {
	all := []Job{}
	for _, setAside := range []bool{false, true} {
		found, err := s.Store.Troubled(r.Context(), setAside, mostJobs)
		if err != nil {
			return nil, err
		}
		for _, j := range found {
			if setAside || j.Attention != dispatch.SetAside {
				all = append(all, shown(j))
			}
		}
	}
	return all, nil
}

func shown(j dispatch.Job) Job {
	return Job{ID: int64(j.ID), Task: int64(j.Task), Account: string(j.Account), Owner: string(j.Owner),
		Phase: string(j.Phase), Status: string(j.Status),
		Attention: string(j.Attention), Text: cmp.Or(j.Failure, j.Notice), Ref: j.Ref.ID, Moved: j.Moved}
}

func (s server) events(r *http.Request) (any, error) {
	id, err := jobIn(r)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Events(r.Context(), id, mostEvents)
	if err != nil {
		return nil, err
	}
	all := make([]Event, len(found))
	for i, e := range found {
		all[i] = Event{At: e.At, What: e.What, Phase: string(e.Phase), Status: string(e.Status),
			Attention: string(e.Attention), Attempt: e.Attempt,
			Outcome: e.Outcome, Took: e.Took.Seconds(), Detail: e.Detail}
	}
	return all, nil
}

func (s server) end(r *http.Request) (any, error) {
	id, err := jobIn(r)
	if err != nil {
		return nil, err
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body.Reason) == "" {
		return nil, invalid("Give a reason for the job's owner: reason.")
	}
	j, err := s.End(r.Context(), id, body.Reason)
	if err != nil {
		return nil, err
	}
	s.audit(r, "end job", "job", int64(id), "account", string(j.Account), "user", string(j.Owner), "reason",
		body.Reason)
	return shown(j), nil
}

// endUnknown ends the jobs of a scope whose submission is unknown.
func (s server) endUnknown(r *http.Request) (any, error) {
	var body Ends
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if err := s.exists(r.Context(), body.Scope); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body.Reason) == "" {
		return nil, invalid("Give a reason for the owners of the jobs: reason.")
	}
	found, err := s.Store.Troubled(r.Context(), false, mostEnded)
	if err != nil {
		return nil, err
	}
	var n Ended
	for _, j := range found {
		if j.Attention != dispatch.SubmissionUnknown || body.Scope != string(j.Account) &&
			body.Scope != j.Account.Platform() {
			continue
		}
		_, err := s.End(r.Context(), j.ID, body.Reason)
		switch {
		case dispatch.Is(err, dispatch.Conflict):
			n.Left++
			continue
		case err != nil:
			return nil, err
		}
		s.audit(r, "end job", "job", int64(j.ID), "account", string(j.Account), "user", string(j.Owner), "reason",
			body.Reason)
		n.Ended++
	}
	return n, nil
}

func (s server) holds(r *http.Request) (any, error) {
	found, err := s.Store.OperatorHolds(r.Context())
	all := make([]Hold, len(found))
	for i, h := range found {
		all[i] = Hold(h)
	}
	return all, err
}

func (s server) hold(r *http.Request) (any, error) {
	var h Hold
	if err := read(r, &h); err != nil {
		return nil, err
	}
	if err := s.exists(r.Context(), h.Scope); err != nil {
		return nil, err
	}
	if strings.TrimSpace(h.Notice) == "" {
		return nil, invalid("Give a reason for users: notice.")
	}
	h.By = r.Header.Get(Header)
	if err := s.Store.HoldScope(r.Context(), dispatch.OperatorHold{Scope: h.Scope, Notice: h.Notice,
		By: h.By}); err != nil {
		return nil, err
	}
	s.audit(r, "hold", "scope", h.Scope, "notice", h.Notice)
	s.hurry()
	return h, nil
}

// exists returns Invalid unless a scope is a configured platform, or an account at one for which jobs were submitted.
func (s server) exists(ctx context.Context, scope string) error {
	platform, _, ofAccount := strings.Cut(scope, "/")
	if !slices.Contains(s.Platforms, platform) {
		return invalid("Unknown platform " + strconv.Quote(platform) + ". Configured " +
			"are: " + strings.Join(s.Platforms, ", ") + ".")
	}
	if !ofAccount {
		return nil
	}
	known, err := s.Store.HasAccount(ctx, dispatch.Account(scope))
	if err == nil && !known {
		return invalid("No job was ever submitted for the account " + strconv.Quote(scope) +
			". Write it as operator jobs and the log do: " +
			platform + "/shared, " + platform + "/open, or " + platform + "/ISSUER SUBJECT.")
	}
	return err
}

func (s server) release(r *http.Request) (any, error) {
	scope := r.URL.Query().Get("scope")
	if err := s.Store.ReleaseScope(r.Context(), scope); err != nil {
		return nil, err
	}
	s.audit(r, "release", "scope", scope)
	s.hurry()
	return Hold{Scope: scope}, nil
}

func (s server) hurry() {
	if s.Hurry != nil {
		s.Hurry()
	}
}

func jobIn(r *http.Request) (dispatch.JobID, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id <= 0 {
		return 0, invalid("The id of a job is a positive number.")
	}
	return dispatch.JobID(id), nil
}

func read(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "operator",
			Text: "The body is not the JSON object that is expected.", Err: err}
	}
	return nil
}

func invalid(text string) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "operator", Text: text}
}
