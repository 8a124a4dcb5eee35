package identity

import (
	"errors"
	"net/http"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Bearer takes the token out of a request's Authorization header, the only place where it is looked for: what stands in
// a URL ends in logs (RFC 9700, section 4.3.2). The error is that of [Verifier.Verify].
func Bearer(r *http.Request) (dispatch.Secret, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", unauthenticated(errors.New("there must be one Authorization header"))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", unauthenticated(errors.New("the Authorization header is not Bearer and a token"))
	}
	return dispatch.Secret(token), nil
}
