package openeo

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// access says who may use an operation.
type access int

const (
	open     access = iota // everybody; a token is not looked at
	optional               // everybody; a token that is sent must be valid
	signedIn               // users
)

// operation is one method at one path of the API. The capabilities list the operations.
type operation struct {
	method, path string // below the root of a view, as a pattern of [http.ServeMux]
	access       access
	serve        func(*request) (*answer, error)
	unlisted     bool // capabilities do not list it
	// the platform answers it: the capabilities of a platform's view list it only if the platform does
	passed  bool
	streams bool // it has no deadline
}

// operations returns all operations.
func (f *Facade) operations() []operation {
	return slices.Concat(f.discoveryOperations(), f.processGraphOperations(), f.runOperations(), f.jobOperations())
}

// request is a request for one operation. Its URL is that below the root of the view.
type request struct {
	*http.Request
	facade.Server
	view   view
	root   string          // absolute URL of the root of the view, without a slash at its end
	user   dispatch.UserID // "": not signed in
	caller identity.Caller
	w      http.ResponseWriter
	outer  *http.Request // as it came
}

// object reads the body, which must be a JSON object.
func (r *request) object() (map[string]json.RawMessage, error) {
	body, err := r.ReadBody(r.w, r.Request)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return nil, refused(http.StatusBadRequest, "ContentTypeInvalid", "The request needs a body: a JSON object.")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil, refused(http.StatusBadRequest, "ContentTypeInvalid", "The body must be a JSON object.")
	}
	return members, nil
}

type answer = facade.Answer

// perform serves one operation.
func (f *Facade) perform(o operation, w http.ResponseWriter, r *http.Request) {
	e := r.Context().Value(exchangeKey{}).(*exchange)
	e.outer.Pattern = o.method + " " + strings.Replace(e.view.path(), "/"+e.view.name()+"/", "/{platform}/", 1) + o.path
	if !o.streams {
		ctx, cancel := facade.WithDeadline(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
	}
	in := &request{Request: r, Server: e.server, view: e.view, root: e.server.BaseURL(e.outer) + e.view.path(), w: w,
		outer: e.outer}
	err := in.authenticate(o.access)
	var out *answer
	if err == nil {
		out, err = o.serve(in)
	}
	if err != nil {
		f.refuse(e.server, w, r, err)
		return
	}
	out.Send(w)
}

// name returns the name of the view's platform; "" for the merged view.
func (v view) name() string {
	if v.merged() {
		return ""
	}
	return v.backend.Name
}

// authenticate finds out who sent the request, as far as the operation needs it.
func (r *request) authenticate(needs access) error {
	headers := r.Header.Values("Authorization")
	if needs == open || needs == optional && len(headers) == 0 {
		return nil
	}
	token, err := tokenIn(headers)
	if err != nil {
		return err
	}
	r.caller, err = r.SignIn(r.Request, token)
	r.user = r.caller.User
	return err
}

// tokenIn returns the access token of an Authorization header, in either form: "Bearer oidc/{provider}/{token}", or
// "Bearer {token}" as the conformance class for plain tokens allows.
func tokenIn(headers []string) (dispatch.Secret, error) {
	if len(headers) == 0 {
		return "", errNoToken
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", errScheme
	}
	text = strings.TrimSpace(text)
	method, rest, prefixed := strings.Cut(text, "/")
	if !prefixed {
		return secretOr(text)
	}
	provider, token, _ := strings.Cut(rest, "/")
	switch {
	case method != "oidc":
		return "", errScheme
	case provider != providerID:
		return "", errProvider
	}
	return secretOr(token)
}

func secretOr(token string) (dispatch.Secret, error) {
	if token == "" {
		return "", errNoToken
	}
	return dispatch.Secret(token), nil
}
