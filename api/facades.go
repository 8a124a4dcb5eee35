package api

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
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
	limited := a.LimitRate(a.CountAddress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call.In(r.Context()).Facade.Serve(facadeServer{a}, w, r)
	})))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if call.In(r.Context()).Facade != nil {
			limited.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// facadeServer implements [facade.Server].
type facadeServer struct{ *api }

func (s facadeServer) BaseURL(r *http.Request) string { return s.api.BaseURL(r.Host, r.TLS != nil) }

func (s facadeServer) SignIn(r *http.Request, token dispatch.Secret) (identity.Caller, error) {
	caller, err := s.api.verifyIfSent(r.Context(), token)
	if err != nil {
		return identity.Caller{}, err
	}
	return caller, s.api.admit(r.Context(), caller)
}

func (s facadeServer) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	most, reason, err := s.api.ReserveBody(r)
	if err != nil {
		return nil, err
	}
	body, err := s.api.ReadWithin(w, r, most, reason)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	if fault := openapi.Malformed(body); fault != nil {
		return nil, call.Invalid([]dispatch.Fault{*fault})
	}
	if faults, _ := openapi.Inspect(body, s.api.Limits.Depth, s.api.Limits.Members); len(faults) > 0 {
		return nil, call.Invalid(faults)
	}
	return body, nil
}

func (s facadeServer) Stream(w http.ResponseWriter, r *http.Request, status int, from io.Reader) error {
	if err := s.api.enterStreams(call.In(r.Context())); err != nil {
		return err
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.api.ChunkTime())); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.WriteHeader(status)
	return s.api.Pass(w, from)
}

func (s facadeServer) RunSync(w http.ResponseWriter, r *http.Request, run dispatch.Request) (*dispatch.SyncResult,
	error) {
	return s.api.startRun(r.Context(), w, run)
}

func (s facadeServer) Key(r *http.Request, body []byte) (dispatch.Key, error) {
	key, faults := openapi.KeyOf(r, body)
	if len(faults) > 0 {
		return key, call.Invalid(faults)
	}
	return key, nil
}

func (s facadeServer) InTurns(ctx context.Context, u dispatch.UserID,
	all iter.Seq2[dispatch.Record, error]) iter.Seq2[dispatch.Record, error] {
	return func(yield func(dispatch.Record, error) bool) {
		turn := s.api.HeavyTurn(u)
		defer turn.ReleaseTurn()
		limits.InTurns(ctx, &turn, all)(yield)
	}
}

func (s facadeServer) SignInLink(account dispatch.Account) string {
	if s.api.SignInLink == nil {
		return ""
	}
	return s.api.SignInLink(account)
}

// Problem implements [facade.Server]. A request that took too long gets the error for that, whatever it was doing, and
// the error is logged.
func (s facadeServer) Problem(ctx context.Context, err error) facade.Problem {
	if errors.Is(context.Cause(ctx), facade.ErrTooSlow) {
		return s.api.Problem(context.WithoutCancel(ctx), errors.Join(call.TooSlow, err))
	}
	return s.api.Problem(ctx, err)
}

const sealedPurpose = "facade "

func (s facadeServer) Seal(u dispatch.UserID, purpose string, text []byte) string {
	return s.api.Seal(u, sealedPurpose+purpose, text)
}

func (s facadeServer) Unseal(u dispatch.UserID, purpose, sealed string) (text []byte, ok bool) {
	return s.api.Unseal(u, sealedPurpose+purpose, sealed)
}

func (s facadeServer) Provenance(ctx context.Context, r dispatch.Record) (any, error) {
	d, err := s.api.Broker.Document(ctx, call.User(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return s.api.provenanceOf(r, d), nil
}
