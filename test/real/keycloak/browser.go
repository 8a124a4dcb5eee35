package keycloak

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Callback is the redirect URI of sign-ins. Nothing listens there: a Browser stops when it is redirected to it.
const Callback = "http://127.0.0.1/signed-in"

// Browser signs in as a user does: it follows redirects, stores cookies and fills in Keycloak's forms. It sends Secure
// cookies over http as well, because Keycloak sets that attribute even on the loopback interface.
type Browser struct {
	Logins map[string]string // realm to user name; the password is NAME-password
	Refuse bool              // cancel instead of consenting

	cookies map[string]string // "host path name" to value
}

// AuthorizationURL returns the address at which a sign-in of a client in the realm apex begins, with the additional
// parameters more, and the PKCE code verifier of that sign-in.
func AuthorizationURL(client string, more url.Values) (address, verifier string) {
	verifier = rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{"client_id": {client}, "response_type": {"code"}, "scope": {"openid"}, "redirect_uri": {Callback},
		"state": {rand.Text()}, "nonce": {rand.Text()}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}
	for name, values := range more {
		q[name] = values
	}
	return Apex + "/protocol/openid-connect/auth?" + q.Encode(), verifier
}

// Link links a user of the realm apex to their account at the platform, NAME-p, by a sign-in in a browser.
func (s *Server) Link(user string) error {
	address, _ := AuthorizationURL("portal", url.Values{"kc_action": {"idp_link:platform"}})
	said, err := (&Browser{Logins: map[string]string{"apex": user, "platform": user + "-p"}}).Visit(address)
	if err == nil && said.Get("kc_action_status") != "success" {
		err = fmt.Errorf("the account was not linked: %v", said)
	}
	return err
}

// Page is the page at which a browser stopped.
type Page struct {
	Address string
	Status  int
	Text    string // without markup
}

// Visit opens an address and returns the query of Callback. It is an error if the browser stops at another page.
func (b *Browser) Visit(address string) (url.Values, error) {
	at, err := b.Open(address)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(at.Address, Callback) {
		return nil, fmt.Errorf("stopped at %s: status %d: %.600s", strings.SplitN(at.Address, "?", 2)[0], at.Status,
			at.Text)
	}
	u, err := url.Parse(at.Address)
	return u.Query(), err
}

// Open opens an address, follows redirects and submits forms. It returns Callback if it is redirected there; otherwise
// the first page that has no form or a status of 400 or above.
func (b *Browser) Open(address string) (Page, error) {
	method, form := http.MethodGet, ""
	for range 30 {
		if strings.HasPrefix(address, Callback) {
			return Page{Address: address}, nil
		}
		status, header, body, err := b.send(method, address, form)
		if err != nil {
			return Page{}, err
		}
		method, form = http.MethodGet, ""
		if location := header.Get("Location"); status/100 == 3 && location != "" {
			if address, err = resolve(address, location); err != nil {
				return Page{}, err
			}
			continue
		}
		page := string(body)
		action := formAction.FindStringSubmatch(page)
		if status >= 400 || action == nil {
			return Page{address, status, words(page)}, nil
		}
		if address, err = resolve(address, html.UnescapeString(action[1])); err != nil {
			return Page{}, err
		}
		method, form = http.MethodPost, b.fill(address, page).Encode()
	}
	return Page{}, errors.New("no end after 30 pages")
}

var (
	formAction = regexp.MustCompile(`(?s)<form[^>]*action="([^"]+)"`)
	hidden     = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)
	nameOf     = regexp.MustCompile(`name="([^"]*)"`)
	valueOf    = regexp.MustCompile(`value="([^"]*)"`)
	tags       = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)
)

// words returns the text of a page without markup, with single spaces.
func words(page string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
}

// fill returns the values of a page's form: the credentials of the realm's user for a sign-in; consent for any other
// form, unless Refuse is set.
func (b *Browser) fill(address, page string) url.Values {
	form := url.Values{}
	for _, input := range hidden.FindAllString(page, -1) {
		if name, value := nameOf.FindStringSubmatch(input),
			valueOf.FindStringSubmatch(input); name != nil && value != nil {
			form.Set(html.UnescapeString(name[1]), html.UnescapeString(value[1]))
		}
	}
	switch {
	case strings.Contains(page, `name="password"`):
		realm, _, _ := strings.Cut(strings.TrimPrefix(address, URL+"/realms/"), "/")
		form.Set("username", b.Logins[realm])
		form.Set("password", b.Logins[realm]+"-password")
	case b.Refuse:
		form.Set("cancel-aia", "true")
	}
	return form
}

// resolve returns a reference as an absolute address.
func resolve(base, reference string) (string, error) {
	from, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	to, err := from.Parse(reference)
	if err != nil {
		return "", err
	}
	return to.String(), nil
}

// send sends a request with the cookies that apply to its address, and stores the cookies of the response.
func (b *Browser) send(method, address, form string) (int, http.Header, []byte, error) {
	at, err := url.Parse(address)
	if err != nil {
		return 0, nil, nil, err
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	site := "none" // as if the user opened the address
	if method == http.MethodPost {
		site = "same-origin" // forms are submitted to the site of their page
	}
	for key, value := range b.cookies {
		if of := strings.Split(key, " "); of[0] == at.Host && strings.HasPrefix(at.Path, of[1]) {
			header.Add("Cookie", of[2]+"="+value)
		}
	}
	status, got, body, err := send(method, address, http.Header{"Content-Type": header["Content-Type"],
		"Cookie": {strings.Join(header["Cookie"], "; ")}, "Sec-Fetch-Site": {site}}, strings.NewReader(form))
	if b.cookies == nil {
		b.cookies = map[string]string{}
	}
	for _, cookie := range (&http.Response{Header: got}).Cookies() {
		key := at.Host + " " + cookie.Path + " " + cookie.Name
		if b.cookies[key] = cookie.Value; cookie.MaxAge < 0 || cookie.Value == "" {
			delete(b.cookies, key)
		}
	}
	return status, got, body, err
}
