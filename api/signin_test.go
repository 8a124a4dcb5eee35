package api

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

const provider = "https://idp.example.org/auth?state=s"

// fakeSignIns signs users in as the test says.
type fakeSignIns struct {
	purpose  identity.Purpose
	arrived  identity.Arrival
	fail     error
	state    string // "": s
	query    url.Values
	brought  dispatch.Secret
	finished int
}

func (d *fakeSignIns) Begin(_ context.Context, p identity.Purpose) (string, dispatch.Secret, error) {
	d.purpose = p
	if d.state != "" {
		return strings.Replace(provider, "state=s", "state="+d.state, 1), dispatch.Secret("memo of " + d.state), d.fail
	}
	return provider, "canary-memo", d.fail
}

func (d *fakeSignIns) Finish(_ context.Context, query url.Values, brought dispatch.Secret) (identity.Arrival, error) {
	d.query, d.brought = query, brought
	d.finished++
	return d.arrived, d.fail
}

func (d *fakeSignIns) Invite(u dispatch.UserID) string { return "for-" + string(u) }

func (d *fakeSignIns) Invited(text string) (dispatch.UserID, error) {
	u, ok := strings.CutPrefix(text, "for-")
	if !ok {
		return "", &dispatch.Error{Kind: dispatch.Invalid, Op: "fake", Text: "This link is too old."}
	}
	return dispatch.UserID(u), nil
}

// newSignInAPI returns an API with pages, and the users whose access changed.
func newSignInAPI(publicURL string) (*world, *fakeSignIns, http.Handler, *[]dispatch.UserID) {
	w, d, changed := newWorld(), &fakeSignIns{}, &[]dispatch.UserID{}
	c := w.config()
	c.PublicURL, c.SignIns, c.Away = publicURL, d, true
	c.OnAccessChanged = func(_ context.Context, u dispatch.UserID) { *changed = append(*changed, u) }
	return w, d, New(c), changed
}

// browse sends the request of a browser whose user opened an address, without a token.
func browse(h http.Handler, target string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	return navigate(h, http.MethodGet, target, "", map[string]string{"Sec-Fetch-Site": "none"}, cookies...)
}

func navigate(h http.Handler, method, target, form string, header map[string]string,
	cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return send(h, r)
}

// press submits the form of a page, as the browser that got the page does.
func press(t *testing.T, h http.Handler, shown *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	t.Helper()
	action, token := formOf(t, shown)
	return navigate(h, http.MethodPost, action, "token="+token, map[string]string{"Sec-Fetch-Site": "same-origin"},
		shown.Result().Cookies()...)
}

var formFields = regexp.MustCompile(
	`<form method="post" action="([^"]+)"><input type="hidden" name="token" value="([^"]+)">`)

func formOf(t *testing.T, shown *httptest.ResponseRecorder) (action, token string) {
	t.Helper()
	found := formFields.FindStringSubmatch(shown.Body.String())
	if found == nil {
		t.Fatalf("no form in %d %s", shown.Code, shown.Body)
	}
	return html.UnescapeString(found[1]), found[2]
}

// shows checks that a response is a page that loads nothing and discloses nothing.
func shows(t *testing.T, a *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	h := a.Header()
	for _, text := range texts {
		if !strings.Contains(a.Body.String(), text) {
			t.Errorf("%q is not in %s", text, a.Body)
		}
	}
	policy := h.Get("Content-Security-Policy")
	if a.Code != status || h.Get("Content-Type") != "text/html; charset=utf-8" ||
		h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" ||
		h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(policy, "default-src 'none'") ||
		!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%d %v", a.Code, h)
	}
	for _, no := range []string{"<script", "src=", "http://", "https://", "canary"} {
		if strings.Contains(a.Body.String(), no) {
			t.Errorf("%q is in %s", no, a.Body)
		}
	}
}

func TestLink_SendsToTheProvider(t *testing.T) {
	for address, name := range map[string]string{"https://dispatch.example.org": "__Host-eodispatch-sign-in-s",
		"http://127.0.0.1": "eodispatch-sign-in-s"} {
		_, d, h, _ := newSignInAPI(address)
		for _, target := range []string{"/link/cdse",
			"/link/cdse?redirect_uri=https://evil.example&return=//evil.example&next=/x"} {
			a := browse(h, target)
			if a.Code != http.StatusSeeOther || a.Header().Get("Location") != provider ||
				d.purpose != (identity.Purpose{Platform: "cdse"}) {
				t.Errorf("%d %v %+v", a.Code, a.Header(), d.purpose)
			}
			if a := press(t, h, navigate(h, http.MethodGet, target, "", nil)); a.Code != http.StatusSeeOther ||
				a.Header().Get("Location") != provider {
				t.Errorf("from another site, after a question: %d %v", a.Code, a.Header())
			}
			c := a.Result().Cookies()[0]
			if c.Name != name || c.Value != "canary-memo" || !c.HttpOnly ||
				c.Secure != strings.HasPrefix(address, "https") || c.SameSite != http.SameSiteLaxMode ||
				c.Path != "/" || c.Domain != "" || c.MaxAge <= 0 {
				t.Errorf("cookie %+v", c)
			}
		}
	}
}

func TestSignedIn_ShowsTheOutcome(t *testing.T) {
	_, d, h, changed := newSignInAPI("https://dispatch.example.org")
	memo := &http.Cookie{Name: "__Host-eodispatch-sign-in-s", Value: "memo"}
	d.arrived = identity.Arrival{Purpose: identity.Purpose{Platform: "cdse"}, User: anna, Name: "<b>Anna</b>"}
	a := browse(h, "/signed-in?code=canary-code&state=s", memo)
	shows(t, a, 200, "Your account at cdse is linked", "You are signed in as &lt;b&gt;Anna&lt;/b&gt;", "/away?for=for-")
	if d.brought != "memo" || d.query.Get("code") != "canary-code" || len(*changed) != 1 || (*changed)[0] != anna {
		t.Errorf("brought %s %v, changed %v", d.brought.Reveal(), d.query, *changed)
	}
	if c := a.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 || c[0].Value != "" {
		t.Errorf("the memo stays: %v", c)
	}
	d.arrived = identity.Arrival{Purpose: identity.Purpose{Away: true}, User: anna, Name: "Anna"}
	shows(t, browse(h, "/signed-in?state=s", memo), 200, "Your jobs keep running after you sign out")

	*changed = nil
	browse(h, "/signed-in?state=s", &http.Cookie{Name: "eodispatch-sign-in-s", Value: "another page's"})
	if d.brought != "" {
		t.Error("a cookie that another may have set is taken")
	}
	for _, row := range []struct {
		arrived identity.Arrival
		err     error
		status  int
		text    string
		again   string
	}{
		{identity.Arrival{}, &dispatch.Error{Kind: dispatch.Invalid, Op: "x", Text: "Begin again."}, 422,
			"Begin again.", ""},
		{identity.Arrival{Purpose: identity.Purpose{Platform: "cdse"}},
			&dispatch.Error{Kind: dispatch.Forbidden, Op: "x",
				Text: "You did not agree."}, 403, "Your account at cdse is not linked", "/link/cdse"},
		{identity.Arrival{Purpose: identity.Purpose{Platform: "cdse"}},
			&dispatch.Error{Kind: dispatch.Misconfigured, Op: "x",
				Text: "The operator must mend it."}, 502, "The operator must mend it.", ""},
		{identity.Arrival{Purpose: identity.Purpose{Away: true}, User: bert}, &dispatch.Error{Kind: dispatch.Forbidden,
			Op: "x", Text: "Another user."}, 403, "Permission not given", "/away"},
		{identity.Arrival{}, &dispatch.Error{Kind: dispatch.Unavailable, Op: "x", Text: "It does not answer."}, 503,
			"It does not answer.", ""},
		{identity.Arrival{}, &dispatch.Error{Kind: dispatch.Internal, Op: "x", Text: "canary"}, 500, call.InternalText,
			""},
		{identity.Arrival{}, context.Canceled, 500, call.InternalText, ""},
	} {
		*changed = nil
		d.arrived, d.fail = row.arrived, row.err
		a := browse(h, "/signed-in", memo)
		shows(t, a, row.status, row.text, "Reference: ")
		if link := `href="` + row.again + `">Try again`; strings.Contains(a.Body.String(),
			"Try again") != (row.again != "") || !strings.Contains(a.Body.String(), link) && row.again != "" {
			t.Errorf("%v: %s", row.err, a.Body)
		}
		if len(*changed) != 0 {
			t.Errorf("%v: changed %v", row.err, *changed)
		}
	}
}

// The page for people names where it was when it sends its user to link an account or to give permission. The pages on
// the way keep that, and the last one leads back there.
func TestSignIn_LeadsBack(t *testing.T) {
	_, d, h, _ := newSignInAPI("https://dispatch.example.org/broker")
	const back = "/broker/#/tasks/7?status=failed"
	asked := "return=" + url.QueryEscape(back)
	for target, want := range map[string]identity.Purpose{
		"/link/cdse?" + asked:         {Platform: "cdse", Return: back},
		"/away?for=for-bert&" + asked: {Away: true, User: "bert", Return: back},
		"/away?" + asked:              {Away: true, Return: back},
	} {
		shown := navigate(h, http.MethodGet, target, "", nil)
		action, token := formOf(t, shown)
		if !strings.HasPrefix(action, "/broker/") {
			t.Errorf("the form goes to %s", action)
		}
		action = strings.TrimPrefix(action, "/broker") // as the proxy does
		navigate(h, http.MethodPost, action, "token="+token, map[string]string{"Sec-Fetch-Site": "same-origin"},
			shown.Result().Cookies()...)
		if d.purpose != want {
			t.Errorf("%s: %+v, want %+v", target, d.purpose, want)
		}
		d.purpose = identity.Purpose{}
		shows(t, navigate(h, http.MethodPost, action, "token=wrong",
			map[string]string{"Sec-Fetch-Site": "same-origin"}), 403, html.EscapeString(asked))
	}
	if browse(h, "/link/cdse?"+asked); d.purpose != (identity.Purpose{Platform: "cdse", Return: back}) {
		t.Errorf("opened by the user: %+v", d.purpose)
	}

	link := `href="` + html.EscapeString(back) + `">Go back`
	d.arrived = identity.Arrival{Purpose: identity.Purpose{Platform: "cdse", Return: back}, User: anna, Name: "Anna"}
	if a := browse(h, "/signed-in"); strings.Contains(a.Body.String(), "close this page") {
		t.Errorf("the page says two things: %s", a.Body)
	} else {
		shows(t, a, 200, link, "/broker/away?for=for-", "&amp;"+asked)
	}
	d.fail = &dispatch.Error{Kind: dispatch.Forbidden, Op: "x", Text: "You did not agree."}
	shows(t, browse(h, "/signed-in"), 403, link, "/broker/link/cdse?"+asked)
}

// jar keeps cookies as a browser does.
type jar map[string]*http.Cookie

func (j jar) keep(a *httptest.ResponseRecorder) {
	for _, c := range a.Result().Cookies() {
		if j[c.Name] = c; c.MaxAge < 0 {
			delete(j, c.Name)
		}
	}
}

func (j jar) all() (all []*http.Cookie) {
	for _, c := range j {
		all = append(all, c)
	}
	return all
}

// fromAnotherSite returns the cookies that a browser sends when another site opens a page.
func (j jar) fromAnotherSite() (sent []*http.Cookie) {
	for _, c := range j.all() {
		if c.SameSite != http.SameSiteStrictMode {
			sent = append(sent, c)
		}
	}
	return sent
}

// Each tab completes its own sign-in, whichever returns first, and a visit with another state ends none.
func TestSignedIn_TabsAtOnce(t *testing.T) {
	_, d, h, _ := newSignInAPI("https://dispatch.example.org")
	cookies := jar{}
	for _, d.state = range []string{"A", "B"} {
		cookies.keep(browse(h, "/link/cdse", cookies.all()...))
	}
	for _, bad := range []string{"", "C", "A;B", "A B", "%0d%0aX", strings.Repeat("A", 1000)} {
		cookies.keep(browse(h, "/signed-in?code=x&state="+url.QueryEscape(bad), cookies.all()...))
		if d.brought != "" {
			t.Errorf("state %.20q brings %s", bad, d.brought.Reveal())
		}
	}
	for _, state := range []string{"B", "A"} {
		cookies.keep(browse(h, "/signed-in?code=x&state="+state, cookies.all()...))
		if got := d.brought.Reveal(); got != "memo of "+state {
			t.Errorf("tab %s brings %q", state, got)
		}
	}
	if len(cookies) > 0 {
		t.Errorf("%d cookies are left", len(cookies))
	}
}

// Of too many sign-ins the oldest ends.
func TestSignedIn_OldestOfManyTabsEnds(t *testing.T) {
	_, d, h, _ := newSignInAPI("https://dispatch.example.org")
	var cookies []*http.Cookie
	for n := range 50 {
		d.state = fmt.Sprint("S", n)
		for _, c := range browse(h, "/link/cdse", cookies...).Result().Cookies() {
			if c.MaxAge > 0 {
				cookies = append(cookies, c)
				continue
			}
			cookies = slices.DeleteFunc(cookies, func(old *http.Cookie) bool { return old.Name == c.Name })
		}
	}
	var names []string
	for _, c := range cookies {
		names = append(names, strings.TrimPrefix(c.Name, "__Host-eodispatch-sign-in-"))
	}
	if got := strings.Join(names, " "); got != "S42 S43 S44 S45 S46 S47 S48 S49" {
		t.Errorf("under way are %s", got)
	}
}

// Forms and links of pages lead to this service where a proxy serves it below a path.
func TestPages_BelowThePathOfThePublicURL(t *testing.T) {
	_, _, h, _ := newSignInAPI("https://eo.example.org/dispatch")
	for _, path := range []string{"/link/cdse", "/away"} {
		if action, _ := formOf(t, navigate(h, http.MethodGet, path, "",
			map[string]string{"Sec-Fetch-Site": "cross-site"})); action != "/dispatch"+path {
			t.Errorf("the form of %s leads to %s", path, action)
		}
		refused := navigate(h, http.MethodPost, path, "", map[string]string{"Sec-Fetch-Site": "cross-site"})
		if want := `href="/dispatch` + path + `"`; !strings.Contains(refused.Body.String(), want) {
			t.Errorf("no %s in %s", want, refused.Body)
		}
	}
}

// The form of each tab can be sent, whichever was opened last.
func TestForms_OfTabsAtOnce(t *testing.T) {
	_, d, h, _ := newSignInAPI("https://dispatch.example.org")
	cookies := jar{}
	open := func(path string) *httptest.ResponseRecorder {
		a := navigate(h, http.MethodGet, path, "", map[string]string{"Sec-Fetch-Site": "cross-site"},
			cookies.fromAnotherSite()...)
		cookies.keep(a)
		return a
	}
	for _, shown := range []*httptest.ResponseRecorder{open("/link/cdse"), open("/away"), open("/link/cdse")} {
		action, token := formOf(t, shown)
		d.purpose = identity.Purpose{}
		if a := navigate(h, http.MethodPost, action, "token="+token, map[string]string{"Sec-Fetch-Site": "same-origin"},
			cookies.all()...); a.Code != http.StatusSeeOther || d.purpose == (identity.Purpose{}) {
			t.Errorf("%s: %d %s", action, a.Code, a.Body)
		}
	}
	for _, set := range []string{"x", strings.Repeat("A", 27), "<script>alert(1)</script>;"} {
		cookies["__Host-eodispatch-form"] = &http.Cookie{Name: "__Host-eodispatch-form", Value: set}
		if _, token := formOf(t, open("/away")); token == set || len(token) != 26 {
			t.Errorf("the token is %q", token)
		}
	}
}

// Browsers that send only Origin write it in lower case and without the default port.
func TestForms_OriginOfThePublicURL(t *testing.T) {
	for _, address := range []string{"https://Dispatch.example.org", "https://dispatch.example.org:443/base"} {
		_, _, h, _ := newSignInAPI(address)
		shown := browse(h, "/away")
		_, token := formOf(t, shown)
		for origin, status := range map[string]int{"https://dispatch.example.org": 303,
			"http://dispatch.example.org": 403, "https://dispatch.example.org:8443": 403, "null": 403} {
			if a := navigate(h, http.MethodPost, "/away", "token="+token, map[string]string{"Origin": origin},
				shown.Result().Cookies()...); a.Code != status {
				t.Errorf("%s, %s: %d", address, origin, a.Code)
			}
		}
	}
}

// A page shows no text of whoever made the link to it.
func TestLink_PageNamesKnownPlatformsOnly(t *testing.T) {
	_, d, h, _ := newSignInAPI("https://dispatch.example.org")
	for _, site := range []string{"cross-site", "same-site", ""} {
		a := navigate(h, http.MethodGet, "/link/Pay%20the%20fee%20to%20Mallory%20first", "",
			map[string]string{"Sec-Fetch-Site": site})
		if shows(t, a, 404, "No platform of this name uses linked accounts."); strings.Contains(a.Body.String(),
			"Mallory") || d.purpose != (identity.Purpose{}) {
			t.Errorf("%s %+v", a.Body, d.purpose)
		}
	}
}

// Links lead to this service, and browsers must use https.
func TestPublicURL_LinksLeadToThisService(t *testing.T) {
	_, _, h, _ := newSignInAPI("https://dispatch.example.org")
	for range 3 {
		decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	}
	link := decode[wire.GrantLink](t, ask(h, "POST", "/grants", ""), 201).Link
	page := ask(h, "GET", "/jobs_status?limit=1", "")
	next, _, _ := strings.Cut(strings.TrimPrefix(page.Header().Get("Link"), "<"), ">")
	for _, address := range []string{link, next} {
		at, ok := strings.CutPrefix(address, "https://dispatch.example.org")
		if a := ask(h, "GET", at, ""); !ok || a.Code != 200 {
			t.Errorf("the link %s leads to %d", address, a.Code)
		}
	}
	if page.Header().Get("Strict-Transport-Security") == "" {
		t.Error("the address is not taken for https")
	}
}

// A visit changes nothing, wherever it comes from.
func TestAway_PermissionNeedsAPageAndAForm(t *testing.T) {
	w, d, h, _ := newSignInAPI("https://dispatch.example.org")
	link := decode[wire.GrantLink](t, ask(h, "POST", "/grants", ""), 201).Link
	at, found := strings.CutPrefix(link, "https://dispatch.example.org")
	if !found {
		t.Fatalf("link %q", link)
	}
	for _, site := range []string{"none", "same-origin", "same-site", "cross-site", ""} {
		page := navigate(h, http.MethodGet, at, "", map[string]string{"Sec-Fetch-Site": site})
		shows(t, page, 200, "Keep running your jobs after you sign out?", "Give permission",
			"It lasts until you withdraw it")
		if d.purpose != (identity.Purpose{}) || page.Header().Get("Location") != "" {
			t.Fatalf("a visit from %q begins %+v", site, d.purpose)
		}
	}
	a := press(t, h, browse(h, at))
	if a.Code != http.StatusSeeOther || d.purpose != (identity.Purpose{Away: true, User: anna}) {
		t.Errorf("%d %+v", a.Code, d.purpose)
	}
	if a := press(t, h, browse(h, "/away")); a.Code != http.StatusSeeOther ||
		d.purpose != (identity.Purpose{Away: true}) {
		t.Errorf("whoever comes: %d %+v", a.Code, d.purpose)
	}
	if a := browse(h, "/away/agree"); a.Code != http.StatusNotFound {
		t.Errorf("the address of before: %d", a.Code)
	}
	shows(t, browse(h, "/away?for=x"), 422, "This link is too old.")
	d.fail = &dispatch.Error{Kind: dispatch.NotFound, Op: "x", Text: "There is no platform of this name."}
	shows(t, browse(h, "/link/other"), 404, "There is no platform of this name.")
	if strings.Contains(w.log.String(), "canary") || strings.Contains(w.log.String(), "for-") ||
		strings.Contains(w.log.String(), "state=") {
		t.Errorf("the log tells: %s", w.log.String())
	}
}

// Forms of other sites are refused, also with a token of their own, and also in browsers that only send Origin.
func TestForms_OfOtherSitesAreRefused(t *testing.T) {
	for _, path := range []string{"/away", "/link/cdse"} {
		_, d, h, _ := newSignInAPI("https://dispatch.example.org")
		shown := navigate(h, http.MethodGet, path, "", map[string]string{"Sec-Fetch-Site": "cross-site"})
		_, token := formOf(t, shown)
		cookies := shown.Result().Cookies()
		if c := cookies[0]; c.Name != "__Host-eodispatch-form" || c.SameSite != http.SameSiteLaxMode || !c.HttpOnly ||
			!c.Secure {
			t.Errorf("cookie %+v", c)
		}
		good, own := "token="+token, []*http.Cookie{cookies[0]}
		for name, a := range map[string]*httptest.ResponseRecorder{
			"cross-site": navigate(h, http.MethodPost, path, good, map[string]string{"Sec-Fetch-Site": "cross-site"},
				own...),
			"same-site": navigate(h, http.MethodPost, path, good, map[string]string{"Sec-Fetch-Site": "same-site"},
				own...),
			"another origin": navigate(h, http.MethodPost, path, good,
				map[string]string{"Origin": "https://evil.example"}, own...),
			"no origin": navigate(h, http.MethodPost, path, good, nil, own...),
			"no cookie": navigate(h, http.MethodPost, path, good, map[string]string{"Sec-Fetch-Site": "same-origin"}),
			"no token": navigate(h, http.MethodPost, path, "x=y", map[string]string{"Sec-Fetch-Site": "same-origin"},
				own...),
			"empty both": navigate(h, http.MethodPost, path, "token=",
				map[string]string{"Sec-Fetch-Site": "same-origin"}, &http.Cookie{Name: cookies[0].Name}),
			"another's token": navigate(h, http.MethodPost, path, "token=x",
				map[string]string{"Sec-Fetch-Site": "same-origin"}, own...),
			"token in the link": navigate(h, http.MethodPost, path+"?"+good, "x=y",
				map[string]string{"Sec-Fetch-Site": "same-origin"}, own...),
		} {
			shows(t, a, 403, "Nothing was changed.")
			if d.purpose != (identity.Purpose{}) {
				t.Fatalf("%s begins %+v", name, d.purpose)
			}
		}
		if a := navigate(h, http.MethodPost, path, good, map[string]string{"Origin": "https://dispatch.example.org"},
			own...); a.Code != http.StatusSeeOther {
			t.Errorf("an older browser: %d %s", a.Code, a.Body)
		}
	}
}

func TestSignIns_CanBeAbsent(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.Grants = nil
	h := New(c)
	failed(t, ask(h, "POST", "/grants", ""), 501, "UNSUPPORTED")
	failed(t, browse(h, "/link/cdse"), 404, "NOT_FOUND")
	failed(t, browse(h, "/signed-in"), 404, "NOT_FOUND")
	if list := decode[[]wire.Grant](t, ask(h, "GET", "/grants", ""), 200); len(list) != 0 {
		t.Errorf("grants %+v", list)
	}
	failed(t, ask(h, "DELETE", "/grants/g1", ""), 404, "GRANT_NOT_FOUND")
}

func TestGrants(t *testing.T) {
	_, _, h, _ := newSignInAPI("https://dispatch.example.org")
	a := ask(h, "GET", "/grants", "")
	list := decode[[]wire.Grant](t, a, 200)
	if len(list) != 2 || list[0].ID != "g1" || list[0].Kind != "offline" || list[0].Expires != nil ||
		list[0].Platforms[0] != "cdse" || list[1].Expires == nil || strings.Contains(a.Body.String(), "canary") {
		t.Errorf("grants %s", a.Body)
	}
	mine, others := ask(h, "DELETE", "/grants/other", "", "X-Correlation-ID", "x"), ask(h, "DELETE", "/grants/g1", "",
		"Authorization", "Bearer token-bert", "X-Correlation-ID", "x")
	failed(t, mine, 404, "GRANT_NOT_FOUND")
	if mine.Body.String() != others.Body.String() {
		t.Errorf("another's grant differs from none: %s %s", mine.Body, others.Body)
	}
	decode[any](t, ask(h, "DELETE", "/grants/g1", ""), 200)
	use := decode[[]wire.Usage](t, ask(h, "GET", "/usage", ""), 200)
	if len(use) != 2 || use[0].Platform != "cdse" || use[0].Live != 1 || use[0].LastDay != 2 || use[0].DayOf != nil ||
		use[0].Jobs != 3 || *use[0].LiveOf != 4 || *use[0].Costs != 1.5 || use[1].Costs != nil ||
		!slices.Equal(use[0].Charges, []wire.Charge{{Month: "2026-11", Unit: "credits", Costs: 4.5, Runs: 3}}) ||
		use[1].Charges == nil {
		t.Errorf("usage %+v", use)
	}
	if use := decode[[]wire.Usage](t, ask(h, "GET", "/usage?label=project", ""),
		200); *use[0].Charges[0].Label != "of project" {
		t.Errorf("usage by label %+v", use)
	}
}

// Each page has a different nonce, and nothing in it runs or has a style without it.
func TestPages_HaveANonce(t *testing.T) {
	_, d, h, _ := newSignInAPI("https://dispatch.example.org")
	nonces := map[string]bool{}
	for _, target := range []string{"/away", "/away", "/away?for=x", "/signed-in?code=c"} {
		d.arrived = identity.Arrival{User: anna, Name: "Anna"}
		a := browse(h, target)
		nonce := regexp.MustCompile(`style-src 'nonce-([A-Za-z0-9+/_-]{20,})';`).FindStringSubmatch(a.Header().Get(
			"Content-Security-Policy"))
		if nonce == nil || nonces[nonce[1]] {
			t.Fatalf("%s: %q, not one nonce", target, a.Header().Get("Content-Security-Policy"))
		}
		nonces[nonce[1]] = true
		text := a.Body.String()
		if strings.Count(text, "<style") != 1 || !strings.Contains(text, `<style nonce="`+nonce[1]+`">`) ||
			strings.Contains(text, "style=") {
			t.Errorf("%s: %s", target, text)
		}
	}
}

// Pages are limited by address without any configuration, so that nobody can cause repeated requests to the identity
// provider. Requests from a trusted proxy have the address that the proxy reports.
func TestPages_AreRated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeSignIns{}
		c := newWorld().config()
		// httptest's is 192.0.2.1
		c.SignIns, c.Away, c.Proxies = d, true, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		h := New(c)
		defer h.Close()
		visit := func(from, target string) *httptest.ResponseRecorder {
			return navigate(h, http.MethodGet, target, "", map[string]string{"X-Forwarded-For": from})
		}
		taken := 0
		for ; taken < 1000 && visit("198.51.100.1", "/signed-in?code=c").Code == 200; taken++ {
		}
		if taken != 100 || d.finished != taken {
			t.Errorf("%d visits at once were taken, and %d finished", taken, d.finished)
		}
		for _, target := range []string{"/signed-in?code=c", "/link/cdse", "/away"} {
			a := visit("198.51.100.1", target)
			shows(t, a, http.StatusTooManyRequests, "Too many requests")
			if again := a.Header().Get("Retry-After"); again != "1" {
				t.Errorf("%s: Retry-After %q", target, again)
			}
		}
		if a := visit("198.51.100.2", "/signed-in?code=c"); a.Code != 200 {
			t.Errorf("another address: %d", a.Code)
		}
		if a := ask(h, "GET", "/usage", "", "X-Forwarded-For", "198.51.100.1"); a.Code != 200 {
			t.Errorf("what is no such page: %d", a.Code)
		}
		time.Sleep(time.Second)
		if a := visit("198.51.100.1", "/signed-in?code=c"); a.Code != 200 {
			t.Errorf("after the pause: %d", a.Code)
		}
	})
}
