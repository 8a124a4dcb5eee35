package pages

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// SignIns signs users in by their browsers. See [identity.SignIns] for the methods.
type SignIns interface {
	Begin(context.Context, identity.Purpose) (address string, remember dispatch.Secret, err error)
	Finish(ctx context.Context, query url.Values, remembered dispatch.Secret) (identity.Arrival, error)
	Invite(dispatch.UserID) string
	Invited(invitation string) (dispatch.UserID, error)
}

// SignedInPath is the path to which the identity provider redirects browsers after sign-in.
const SignedInPath = "/signed-in"

//go:embed page.html page.css oauth2-redirect.js
var pageFiles embed.FS

var (
	pageTemplate = template.Must(template.ParseFS(pageFiles, "page.html"))
	pageStyle    = mustRead("page.css")
)

// PagePolicy returns a Content-Security-Policy that lets a page load nothing but the style with the nonce, and the
// script with it if the page has one. It forbids other pages to embed the page.
func PagePolicy(p Dialog, nonce string) string {
	policy := fmt.Sprintf(
		"default-src 'none'; style-src 'nonce-%s'; base-uri 'none'; frame-ancestors 'none'; form-action %s", nonce,
		formTargets(p))
	if p.Script != "" {
		policy += fmt.Sprintf("; script-src 'nonce-%s'", nonce)
	}
	return policy
}

func mustRead(name string) string {
	text, err := pageFiles.ReadFile(name)
	if err != nil {
		panic(err) // the template is embedded
	}
	return string(text)
}

// Dialog is the content of a page for people.
type Dialog struct {
	Title string
	Text  []string
	Form  *pageForm
	Back  string // path of this service that the browser came from; "": none
	Link  *pageLink
	Note  string

	Script template.JS // "": the page has none
}

type pageForm struct{ Action, Text, Value string }

type pageLink struct{ Address, Text string }

// servePages registers the pages that users open in a browser. A page does not know its user before the sign-in. GET
// requests change nothing, unless the user opened the page themselves; every change is a POST from a page of this
// service.
func (a *Site) servePages() {
	if a.SignIns == nil {
		return
	}
	for route, serve := range map[string]http.HandlerFunc{"GET /link/{platform}": a.linkPage,
		"POST /link/{platform}": a.startLink,
		"GET /away":             a.awayPage, "POST /away": a.sendToConsent, "GET " + SignedInPath: a.signedInPage} {
		a.mux.HandleFunc(route, a.limitPageRate(serve))
	}
}

// limitPageRate limits the pages by address, because no user is known and each completed sign-in costs the identity
// provider a request.
func (a *Site) limitPageRate(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wait := a.BySignIn.Wait(limits.Network(call.In(r.Context()).Address))
		if wait == 0 {
			serve(w, r)
			return
		}
		err := limits.ErrTooFast("your address", wait)
		for name, value := range err.Header {
			w.Header().Set(name, value)
		}
		a.show(w, r, err.Status, Dialog{Title: "Too many requests", Text: []string{err.Message}, Note: "Reference: " +
			call.In(r.Context()).ID})
	}
}

// PagePath returns the path at which browsers reach a path of this service: a proxy may serve it below the path of the
// public URL.
func (a *Site) PagePath(path string) string {
	public, err := url.Parse(a.PublicURL)
	if err != nil {
		return path
	}
	return public.EscapedPath() + path
}

// ownReturn returns the path of this service to which a request asks to come back in the end; "": none.
func ownReturn(r *http.Request) string {
	if back := r.URL.Query().Get("return"); isOwnPath(back) {
		return back
	}
	return ""
}

// withReturn adds to a path where the browser comes back to in the end, see ownReturn.
func withReturn(path, back string) string {
	if back == "" {
		return path
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + "return=" + url.QueryEscape(back)
}

// linkPage starts the linking of an account if the user opened the page themselves. If another site sent them here, it
// asks first.
func (a *Site) linkPage(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "none" || site == "same-origin" {
		a.redirectToProvider(w, r, identity.Purpose{Platform: r.PathValue("platform"), Return: ownReturn(r)})
		return
	}
	name := r.PathValue("platform")
	if !slices.Contains(a.Linked, name) { // the form would show any text that a link contains
		a.showError(w, r, Dialog{Title: "Unknown platform"}, &dispatch.Error{Kind: dispatch.NotFound,
			Op: "api.linkPage", Text: "No platform of this name uses linked accounts."})
		return
	}
	a.showForm(w, r, Dialog{Title: "Link your account at " + name + "?",
		Text: []string{a.Title + " runs your jobs at " + name +
			" under your own account there. For that, sign in and link that account to yours.",
			"You can remove the link at any time in your account at the identity provider."},
		Form: &pageForm{Action: withReturn(a.PagePath("/link/"+url.PathEscape(name)), ownReturn(r)),
			Text: "Link my account"}})
}

// startLink sends the browser to the identity provider to link an account.
func (a *Site) startLink(w http.ResponseWriter, r *http.Request) {
	if err := a.checkOwnPage(r); err != nil {
		a.showError(w, r, Dialog{Title: "The account was not linked",
			Link: &pageLink{withReturn(a.PagePath(r.URL.EscapedPath()), ownReturn(r)), "Try again"}}, err)
		return
	}
	a.redirectToProvider(w, r, identity.Purpose{Platform: r.PathValue("platform"), Return: ownReturn(r)})
}

// awayPage asks the user for permission to run jobs after they have signed out.
func (a *Site) awayPage(w http.ResponseWriter, r *http.Request) {
	invitation, _, err := a.invited(r)
	if err != nil {
		a.showError(w, r, Dialog{Title: "Permission not given"}, err)
		return
	}
	a.showForm(w, r, Dialog{Title: "Keep running your jobs after you sign out?",
		Text: []string{"Jobs can take days. " + a.Title +
			" can keep running yours after you sign out. For that it needs your permission, which you give once.",
			"The permission is stored encrypted and used for your own jobs only. It lasts until you withdraw it, " +
				"here or in your account at the identity provider."},
		Form: &pageForm{Action: withReturn(a.PagePath("/away"+invitation), ownReturn(r)), Text: "Give permission"},
		Note: "If you do not want this, close this page. Your jobs then pause when your sign-in ends, until you sign " +
			"in again."})
}

// sendToConsent sends the browser to the identity provider, which asks the user once more for the permission.
func (a *Site) sendToConsent(w http.ResponseWriter, r *http.Request) {
	invitation, user, err := a.invited(r)
	if err == nil {
		err = a.checkOwnPage(r)
	}
	if err != nil {
		a.showError(w, r,
			Dialog{Title: "Permission not given", Link: &pageLink{withReturn(a.PagePath("/away"+invitation),
				ownReturn(r)), "Try again"}}, err)
		return
	}
	a.redirectToProvider(w, r, identity.Purpose{Away: true, User: user, Return: ownReturn(r)})
}

const (
	formCookie = "form"
	formLasts  = 15 * 60 // seconds
)

// showForm shows a page with a form that only this browser can send: the form and a cookie carry the same random token.
// The cookie is lax, so that it arrives when another site opens the page in a further tab, which then has the same
// token.
func (a *Site) showForm(w http.ResponseWriter, r *http.Request, p Dialog) {
	p.Form.Value = a.formToken(r)
	http.SetCookie(w, a.cookie(formCookie, p.Form.Value, formLasts))
	a.show(w, r, http.StatusOK, p)
}

var formTokens = regexp.MustCompile(`^[A-Z2-7]{26}$`) // of rand.Text

// formToken returns the token that the browser already has, so that forms in several tabs can be sent, or else a new
// one.
func (a *Site) formToken(r *http.Request) string {
	if c, err := r.Cookie(a.cookie(formCookie, "", 0).Name); err == nil && formTokens.MatchString(c.Value) {
		return c.Value
	}
	return rand.Text()
}

// checkOwnPage returns nil if the form was sent by a page that was shown to this browser. It checks where the request
// comes from (Sec-Fetch-Site, or the older Origin) and the cookie, which no other site can read or set.
func (a *Site) checkOwnPage(r *http.Request) error {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	sameOrigin := site == "same-origin" || site == "" && origin != "" && origin == dispatch.OriginOf(a.PublicURL)
	r.Body = http.MaxBytesReader(nil, r.Body, 4<<10)
	c, err := r.Cookie(a.cookie(formCookie, "", 0).Name)
	if !sameOrigin || err != nil || c.Value == "" || subtle.ConstantTimeCompare([]byte(c.Value),
		[]byte(r.PostFormValue("token"))) != 1 {
		return &dispatch.Error{Kind: dispatch.Forbidden, Op: "api.checkOwnPage",
			Text: "The form was not sent from a page of this service that you opened in the last 15 minutes in this " +
				"browser. Nothing was changed. Open the page again, and allow its cookies."}
	}
	return nil
}

// invited reads for whom the link was made, if for anybody, and returns that part of the link.
func (a *Site) invited(r *http.Request) (query string, u dispatch.UserID, err error) {
	invitation := r.URL.Query().Get("for")
	if invitation == "" {
		return "", "", nil
	}
	u, err = a.SignIns.Invited(invitation)
	return "?for=" + url.QueryEscape(invitation), u, err
}

// redirectToProvider redirects the browser to the identity provider. A cookie carries the state that it must bring
// back.
func (a *Site) redirectToProvider(w http.ResponseWriter, r *http.Request, p identity.Purpose) {
	address, remember, err := a.SignIns.Begin(r.Context(), p)
	if err != nil {
		a.showError(w, r, Dialog{Title: "Sign-in failed"}, err)
		return
	}
	a.dropSignIns(w, r)
	http.SetCookie(w, a.cookie(signInCookie(stateIn(address)), remember.Reveal(), 15*60))
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, address, http.StatusSeeOther)
}

const MostSignIns = 8 // of one browser under way; a cookie has about 700 bytes, and the head of a request is bounded

var states = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// signInCookie names the cookie of the sign-in with a state. Each sign-in has its own, so that tabs do not disturb each
// other. For a text that cannot be a state of this service it returns a name that no cookie has.
func signInCookie(state string) string {
	if !states.MatchString(state) {
		return "sign-in"
	}
	return "sign-in-" + state
}

// stateIn returns the state in the query of an address.
func stateIn(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Query().Get("state")
}

// dropSignIns removes the cookies of a browser's oldest sign-ins if there are too many. Browsers send the oldest first
// (RFC 6265, section 5.4).
func (a *Site) dropSignIns(w http.ResponseWriter, r *http.Request) {
	var pending []string
	for _, c := range r.Cookies() {
		if state, ok := strings.CutPrefix(c.Name, a.cookie("sign-in-", "", 0).Name); ok && states.MatchString(state) {
			pending = append(pending, state)
		}
	}
	for _, state := range pending[:max(0, len(pending)-MostSignIns+1)] {
		http.SetCookie(w, a.cookie(signInCookie(state), "", -1))
	}
}

// cookie returns a cookie of this service. With https its prefix __Host- ensures that only this host has set it.
func (a *Site) cookie(name, value string, seconds int) *http.Cookie {
	c := &http.Cookie{Name: "eodispatch", Value: value, Path: "/", MaxAge: seconds, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	if name != "" {
		c.Name += "-" + name
	}
	if strings.HasPrefix(a.PublicURL, "https:") {
		c.Name, c.Secure = "__Host-"+c.Name, true
	}
	return c
}

// signedInPage finishes a sign-in and shows its outcome.
func (a *Site) signedInPage(w http.ResponseWriter, r *http.Request) {
	var remembered dispatch.Secret
	own := signInCookie(r.URL.Query().Get("state"))
	if c, err := r.Cookie(a.cookie(own, "", 0).Name); err == nil {
		remembered = dispatch.Secret(c.Value)
	}
	http.SetCookie(w, a.cookie(own, "", -1))
	arrived, err := a.SignIns.Finish(r.Context(), r.URL.Query(), remembered)
	if arrived.User != "" && a.OnAccessChanged != nil && !dispatch.Is(err, dispatch.Forbidden) {
		a.OnAccessChanged(r.Context(), arrived.User)
	}
	if err == nil && arrived.Session {
		a.startSession(w, r, arrived)
		return
	}
	title, done := titles(arrived)
	if err != nil {
		a.showError(w, r, Dialog{Title: title, Back: arrived.Return, Link: a.tryAgain(arrived, err)}, err)
		return
	}
	p := Dialog{Title: done, Text: []string{"You are signed in as " + arrived.Name +
		". Your jobs that waited for this continue now."}, Back: arrived.Return}
	if p.Back == "" {
		p.Text[0] += " You can close this page."
	}
	if arrived.Platform != "" && a.Away {
		p.Text = append(p.Text,
			"Your jobs pause when your sign-in here ends, unless you permit them to run after you sign out.")
		p.Link = &pageLink{withReturn(a.PagePath("/away?for="+url.QueryEscape(a.SignIns.Invite(arrived.User))),
			arrived.Return), "Give permission"}
	}
	a.show(w, r, http.StatusOK, p)
}

// titles returns the titles of the page for failure and for success.
func titles(arrived identity.Arrival) (failed, done string) {
	switch {
	case arrived.Platform != "":
		return "Your account at " + arrived.Platform + " is not linked",
			"Your account at " + arrived.Platform + " is linked"
	case arrived.Away:
		return "Permission not given", "Your jobs keep running after you sign out"
	}
	return "Sign-in failed", ""
}

// tryAgain returns a link to repeat what failed; nil if repeating cannot help.
func (a *Site) tryAgain(arrived identity.Arrival, err error) *pageLink {
	switch {
	case dispatch.Is(err, dispatch.Misconfigured):
		return nil
	case arrived.Platform != "":
		return &pageLink{withReturn(a.PagePath("/link/"+url.PathEscape(arrived.Platform)), arrived.Return), "Try again"}
	case arrived.Away:
		return &pageLink{withReturn(a.PagePath("/away"), arrived.Return), "Try again"}
	case arrived.Session:
		return &pageLink{withReturn(a.PagePath(signInPath), arrived.Return), "Try again"}
	}
	return nil
}

// showError logs err and shows a page with its text.
func (a *Site) showError(w http.ResponseWriter, r *http.Request, p Dialog, err error) {
	status := call.RefusalFor(err).Status
	switch {
	case call.IsDatabaseFailure(err):
		a.DatabaseFailed(r.Context(), err)
	case status >= 500:
		a.Log.ErrorContext(r.Context(), "sign-in failed", "error", err)
	default:
		a.Log.InfoContext(r.Context(), "sign-in failed", "error", err)
	}
	p.Text, p.Note = []string{dispatch.TextFor(err)}, "Reference: "+call.In(r.Context()).ID
	if e, ok := errors.AsType[*dispatch.Error](err); !ok || e.Kind == dispatch.Internal {
		p.Text = []string{call.InternalText}
	}
	a.show(w, r, status, p)
}

// formTargets returns where the form of a page may lead. Browsers apply this to redirects too, so it must include the
// identity provider and those that it redirects to, whose addresses are not known.
func formTargets(p Dialog) string {
	if p.Form == nil {
		return "'none'"
	}
	return "'self' https: http:"
}

func (a *Site) show(w http.ResponseWriter, r *http.Request, status int, p Dialog) {
	var b bytes.Buffer
	nonce := rand.Text()
	if err := pageTemplate.Execute(&b, struct {
		Dialog
		Style template.CSS
		Nonce string
	}{p, template.CSS(pageStyle), nonce}); err != nil {
		panic(err) // the template is part of the program
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", PagePolicy(p, nonce))
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	if _, err := w.Write(b.Bytes()); err != nil {
		a.Log.DebugContext(r.Context(), "page not written", "error", err)
	}
}
