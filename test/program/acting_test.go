package program

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// acting is the environment of a broker that acts as its users, also while they are signed out, and uses one shared
// account at the OGC server.
func acting(t *testing.T, w *simulator.World, address, database string, keys ...dispatch.Secret) []string {
	t.Helper()
	known := w.Credentials
	exchange := fmt.Sprintf(`{"driver": "keycloak-broker", "alias": %q}`, simulator.PlatformAlias)
	account := fmt.Sprintf(`{"token_url": "%s/protocol/openid-connect/token", "client_id": %q, "client_secret": %q}`,
		known.Platform, known.ServiceID, known.ServiceSecret)
	return []string{"EODISPATCH_DEVELOPMENT=true", "EODISPATCH_LISTEN=" + address, "EODISPATCH_PUBLIC_URL=http://" +
		address, "EODISPATCH_DATABASE=" + database,
		"EODISPATCH_IDENTITY_ISSUER=" + known.Issuer, "EODISPATCH_IDENTITY_CLIENT_ID=" + known.BrokerID,
		"EODISPATCH_IDENTITY_CLIENT_SECRET=" + known.BrokerSecret,
		"EODISPATCH_IDENTITY_SESSION_GRANTS=false", "EODISPATCH_VAULT_KEYS=" + joined(keys),
		"EODISPATCH_LOG_LEVEL=debug", fmt.Sprintf(
			`EODISPATCH_PLATFORMS=[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "user", "issuer": %q, "exchange": %s},
			{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": %q, "access": "shared", "service_account": %s, "users": {"jobs": 100}}]`,
			w.OpenEOURL, known.Platform, exchange, w.OGCURL, account)}
}

func joined(keys []dispatch.Secret) string {
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Reveal())
	}
	return strings.Join(texts, ",")
}

// agree gives a user's permission in a browser, and returns the final page.
func agree(t *testing.T, c Client, user string) string {
	t.Helper()
	var invited struct{ Link string }
	if err := c.Call(t.Context(), http.MethodPost, "/grants", nil, &invited); err != nil {
		t.Fatal(err)
	}
	return browse(t, invited.Link, user)
}

// browse opens a page of the broker in a new browser, as a user who confirms its form and signs in.
func browse(t *testing.T, page, user string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if q := next.URL.Query(); q.Has("code_challenge") {
			q.Set("as", user)
			next.URL.RawQuery = q.Encode()
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text := bodyOf(t, response)
	form := pageForm.FindStringSubmatch(text)
	if form == nil {
		return text
	}
	action, err := response.Request.URL.Parse(html.UnescapeString(form[1]))
	if err != nil {
		t.Fatal(err)
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, action.String(), strings.NewReader("token="+
		form[2]))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	post.Header.Set("Sec-Fetch-Site", "same-origin")
	if response, err = browser.Do(post); err != nil {
		t.Fatal(err)
	}
	return bodyOf(t, response)
}

// pageForm returns the target and the token of a page's form.
var pageForm = regexp.MustCompile(
	`<form method="post" action="([^"]+)"><input type="hidden" name="token" value="([^"]+)">`)

func bodyOf(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
