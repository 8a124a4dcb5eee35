package upstream_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"plain words":                        "plain words",
		"<b>bold</b> & <a href='x'>link</a>": "bold & link",
		"a < b and c > d":                    "a < b and c > d",
		"two\n lines\t\x00\x1b[31m":          "two lines [31m",
		"<<b>script>alert(1)</script>":       "< script>alert(1)",
		"open <img src=x onerror=y":          "open",
		"bidi \u202eright\u200b":             "bidi right",
		"broken \xff utf-8":                  "broken utf-8",
	} {
		if got := upstream.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	long := upstream.Text(strings.Repeat("ü", 4000))
	if n := utf8.RuneCountInString(long); n != 500 || !strings.HasSuffix(long, "…") {
		t.Errorf("a long text has %d runes", n)
	}
}

var markup = regexp.MustCompile(`<[A-Za-z/!?]`)

func FuzzText(f *testing.F) {
	f.Add("<b>x</b>")
	f.Add("<<a>a<\xff\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		got := upstream.Text(in)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 500 || markup.MatchString(got) ||
			strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("Text(%q) = %q", in, got)
		}
	})
}

func TestJSON(t *testing.T) {
	for _, c := range []struct{ media, body, says string }{
		{"text/html; charset=utf-8", "<html><body>Bad Gateway</body></html>", "text/html"},
		{"application/json", "", "empty"},
		{"application/json", "{", "not valid JSON"},
		{"application/json", `{"id":7}`, "structure"},
		{"application/json", `[]`, "structure"},
		{"", "oops", "not valid JSON"},
	} {
		a := &upstream.Answer{Status: 200, Header: http.Header{"Content-Type": {c.media}}, Body: []byte(c.body)}
		var into struct{ ID string }
		e := wantKind(t, upstream.JSON(a, "test", &into), dispatch.BadUpstream)
		if !strings.Contains(e.Text, c.says) {
			t.Errorf("%s %q: got %q", c.media, c.body, e.Text)
		}
	}
}

func TestSaid(t *testing.T) {
	for _, c := range []struct{ media, body, want string }{
		{"application/json", `{"code":"A","message":"openEO's"}`, "openEO's"},
		{"application/problem+json", `{"title":"T","detail":"a problem's"}`, "a problem's"},
		{"application/json", `{"code":"NoSuchJob","description":"pygeoapi's"}`, "pygeoapi's"},
		{"application/json", `{"detail":[{"msg":"x"}]}`, ""},
		{"application/json", `{"error":"invalid_grant","error_description":"Token expired"}`, "Token expired"},
		{"text/plain; charset=utf-8", "Bad Gateway", "Bad Gateway"},
		{"text/html", "<h1>Bad Gateway</h1>", ""},
		{"application/json", `null`, ""},
	} {
		if got := upstream.Message(&upstream.Answer{Header: http.Header{"Content-Type": {c.media}},
			Body: []byte(c.body)}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
}
