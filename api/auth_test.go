package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// refusing is a verifier that refuses every token for one reason.
type refusing struct{ reason error }

func (v refusing) Verify(context.Context, dispatch.Secret) (identity.Caller, error) {
	return identity.Caller{}, fmt.Errorf("%w: %w", identity.ErrUnauthenticated, v.reason)
}

// TestAuthenticate_SaysWhatHelps: a client can renew an expired token (RFC 6750, section 3.1). Where signing in again
// cannot help, the response states what does. All other refusals are alike.
func TestAuthenticate_SaysWhatHelps(t *testing.T) {
	for reason, want := range map[error]struct{ description, message string }{
		identity.ErrExpired:            {"The token has expired", "has expired. Get a new one"},
		identity.ErrNoSubject:          {"The token has no claim sub", "in Keycloak by the client scope basic"},
		identity.ErrTooLong:            {"The token has more than 8192 bytes", "fewer roles"},
		errors.New("another audience"): {"", "Sign in at its identity provider and use the new token."},
	} {
		c := newWorld().config()
		c.Verifier = refusing{reason}
		a := ask(New(c), "GET", "/unit_jobs/1", "")
		message := failed(t, a, 401, "AUTHENTICATION_FAILED").Message
		challenge := `Bearer error="invalid_token"`
		if want.description != "" {
			challenge += `, error_description="` + want.description + `"`
		}
		if got := a.Header().Get("WWW-Authenticate"); got != challenge || !strings.Contains(message, want.message) ||
			strings.Contains(message, "does not help") == strings.Contains(message, "Get a new one") &&
				want.description != "" {
			t.Errorf("%v: %q, %q", reason, got, message)
		}
	}
}

// Reasons are logged at level info, at most one line a second for each reason, with the number of refusals.
func TestAuthenticate_LogsWhyTokensAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		c.Verifier = refusing{errors.New("the token is for another audience")}
		h := New(c)
		lines := func() int { return strings.Count(w.log.String(), `"msg":"token refused"`) }
		for range 50 {
			ask(h, "GET", "/unit_jobs/1", "")
		}
		if n := lines(); n != 1 || !strings.Contains(w.log.String(), "another audience") {
			t.Errorf("%d lines for 50 refusals in a second: %s", n, w.log.String())
		}
		time.Sleep(time.Second)
		ask(h, "GET", "/unit_jobs/1", "")
		if n := lines(); n != 2 || !strings.Contains(w.log.String(), `"refused":50`) {
			t.Errorf("%d lines: %s", n, w.log.String())
		}
	})
}

// Every stream, however it gets the token, reports in the words of RFC 6750 that a token has expired. Of other bad
// tokens it only reports that they are not valid.
func TestExpiredTokens_AreNamedByStreams(t *testing.T) {
	h := New(newWorld().config())
	defer h.Close()
	for token, challenge := range map[string]string{"token-x": `Bearer error="invalid_token"`, "token-old": expired} {
		for _, path := range []string{"/job_status", "/ws/jobs_status", "/ws/upscale_tasks/1"} {
			for way, a := range map[string]*httptest.ResponseRecorder{
				"header":   ask(h, "GET", path, "", "Authorization", "Bearer "+token),
				"query":    ask(h, "GET", path+"?token="+token, "", "Authorization", ""),
				"protocol": ask(h, "GET", path, "", "Authorization", "", "Sec-WebSocket-Protocol", "bearer."+token),
			} {
				failed(t, a, 401, "AUTHENTICATION_FAILED")
				if got := a.Header().Values("WWW-Authenticate"); !slices.Equal(got, []string{challenge}) {
					t.Errorf("%s, %s in a %s: WWW-Authenticate %q", path, token, way, got)
				}
			}
		}
	}
}

// expired is the challenge to who sends an expired token, so that clients get a new one by themselves (RFC 6750).
const expired = `Bearer error="invalid_token", error_description="The token has expired"`
