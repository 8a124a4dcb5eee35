package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/identity"
)

// facadeAt returns the façade that serves a path; nil if none does.
func (a *api) facadeAt(path string) facade.Facade {
	path = "/" + strings.TrimLeft(path, "/") // clients join URLs with doubled slashes
	for _, f := range a.Facades {
		for _, root := range f.Paths() {
			if rest, below := strings.CutPrefix(path, root); below && (rest == "" || rest[0] == '/') {
				return f
			}
		}
	}
	return nil
}

// serveFacades serves the paths of façades, which do without the rules of the API for other origins, and passes on the
// rest.
func (a *api) serveFacades(next http.Handler) http.Handler {
	limited := a.limitRate(a.countAddress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callIn(r.Context()).facade.Serve(facadeServer{a}, w, r)
	})))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callIn(r.Context()).facade != nil {
			limited.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// facadeServer implements [facade.Server].
type facadeServer struct{ a *api }

func (s facadeServer) BaseURL(r *http.Request) string { return s.a.baseURL(r.Host, r.TLS != nil) }

func (s facadeServer) SignIn(r *http.Request, token dispatch.Secret) (identity.Caller, error) {
	if token == "" {
		return identity.Caller{}, errNoToken
	}
	caller, err := s.a.verifyToken(r.Context(), token.Reveal())
	if err != nil {
		return identity.Caller{}, err
	}
	return caller, s.a.admit(r.Context(), caller)
}

func (s facadeServer) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	most, reason, err := s.a.reserveBody(r)
	if err != nil {
		return nil, err
	}
	body, err := s.a.readWithin(w, r, most, reason)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	if fault := malformed(body); fault != nil {
		return nil, invalid([]dispatch.Fault{*fault})
	}
	if faults, _ := inspect(body, s.a.Limits.Depth, s.a.Limits.Members); len(faults) > 0 {
		return nil, invalid(faults)
	}
	return body, nil
}

func (s facadeServer) Stream(w http.ResponseWriter, r *http.Request, status int, from io.Reader) error {
	if err := s.a.enterStreams(callIn(r.Context())); err != nil {
		return err
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.a.chunkTime())); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.WriteHeader(status)
	return s.a.pass(w, from)
}

func (s facadeServer) RunSync(w http.ResponseWriter, r *http.Request, run dispatch.Request) (*dispatch.SyncResult,
	error) {
	return s.a.startRun(r.Context(), w, run)
}

const (
	bodiesOfUser   = 4 // of the largest size: the bodies of one user's requests to façades that are being served
	bodiesOfOthers = 8 // of the size of [budget.OpenBody]: those of all who have not signed in
)

// reserveBody waits until a body fits among those of the user's requests, or of strangers' requests, and returns its
// limit in bytes. It is counted until the request ends, because a request that waits for a platform keeps its body.
func (a *api) reserveBody(r *http.Request) (most int64, reason string, err error) {
	c, whose := callIn(r.Context()), &a.bodies
	if most = a.Limits.Body; c.caller.User == "" {
		most, whose, reason = min(most, bounds.OpenBody.Most), &a.openBodies, " without a sign-in (bound "+
			bounds.OpenBody.Name+")"
	}
	size := most
	if r.ContentLength > 0 {
		size = min(r.ContentLength, most)
	}
	waiting, cancel := context.WithTimeout(r.Context(), turnOfRequest)
	defer cancel()
	release, err := whose.Acquire(waiting, c.caller.User, size)
	if err != nil {
		return 0, "", tooManyBodies
	}
	c.atEnd = append(c.atEnd, release)
	return most, reason, nil
}

var tooManyBodies = refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED", header: retryAfter(turnOfRequest),
	message: "Too many large requests are being served. Repeat this one in a few seconds."}

func (s facadeServer) Key(r *http.Request, body []byte) (dispatch.Key, error) {
	key, faults := keyOf(r, body)
	if len(faults) > 0 {
		return key, invalid(faults)
	}
	return key, nil
}

func (s facadeServer) InTurns(ctx context.Context, u dispatch.UserID,
	all iter.Seq2[dispatch.Record, error]) iter.Seq2[dispatch.Record, error] {
	return func(yield func(dispatch.Record, error) bool) {
		turn := heavyTurn{work: s.a.heavy, user: u}
		defer turn.releaseTurn()
		inTurns(ctx, &turn, all)(yield)
	}
}

func (s facadeServer) BeginWait(ctx context.Context) (waiting context.Context, end func(), err error) {
	release, err := s.a.waits.enter(user(ctx), s.a.Limits.Sockets)
	if err != nil {
		return nil, nil, errTooManyWaits
	}
	resume := callIn(ctx).pauseTurn()
	waiting, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.a.life, cancel)
	return waiting, func() {
		stop()
		cancel()
		resume(ctx)
		release()
	}, nil
}

func (s facadeServer) SignInLink(of dispatch.Account) string {
	if s.a.SignInLink == nil {
		return ""
	}
	return s.a.SignInLink(of)
}

// Problem implements [facade.Server]. The error of a request that took too long is that it did, whatever it was doing,
// and is logged.
func (s facadeServer) Problem(ctx context.Context, err error) facade.Problem {
	if errors.Is(context.Cause(ctx), facade.ErrTooSlow) {
		return s.a.problem(context.WithoutCancel(ctx), errors.Join(tooSlow, err))
	}
	return s.a.problem(ctx, err)
}

// problem returns an error as façades show it.
func (a *api) problem(ctx context.Context, err error) facade.Problem {
	answer := a.answerFor(ctx, err)
	p := facade.Problem{Status: answer.status, Message: answer.message, Faults: answer.faults,
		Header: maps.Clone(answer.header), RequestID: answer.requestID}
	if own, is := errors.AsType[refusal](err); is {
		p.Own, p.Faults = true, own.faults
		return p
	}
	p.Kind = dispatch.KindOf(err)
	if e, is := errors.AsType[*dispatch.Error](err); is {
		p.Link = e.Link
	}
	if p.Kind == dispatch.NotFound {
		p.Message = dispatch.TextFor(err)
	}
	return p
}

const sealedPurpose = "facade "

func (s facadeServer) Seal(u dispatch.UserID, purpose string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(s.a.sign(u, sealedPurpose+purpose, text), text...))
}

func (s facadeServer) Unseal(u dispatch.UserID, purpose, sealed string) (text []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(raw) < sha256.Size {
		return nil, false
	}
	text = raw[sha256.Size:]
	return text, hmac.Equal(raw[:sha256.Size], s.a.sign(u, sealedPurpose+purpose, text))
}
