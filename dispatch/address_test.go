package dispatch

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseAddress(t *testing.T) {
	for raw, want := range map[string]string{
		"https://openeo.example":                         "https://openeo.example",
		"HTTPS://OpenEO.Example:443/openeo/1.2/":         "https://openeo.example/openeo/1.2",
		"https://openeo.example:0443/a//b":               "https://openeo.example/a/b",
		"https://openeo.example:/a":                      "https://openeo.example/a",
		"http://127.0.0.1:8080/a?b=c":                    "http://127.0.0.1:8080/a",
		"https://[2001:DB8::0:1]/a":                      "https://[2001:db8::1]/a",
		"https://s3_bucket.example/%6aobs/j%20x/MTA=/5f": "https://s3_bucket.example/jobs/j%20x/MTA=/5f",
		"https://xn--mnchen-3ya.example/%C3%BC":          "https://xn--mnchen-3ya.example/%C3%BC",
	} {
		if a, err := ParseAddress(raw); err != nil || a.String() != want {
			t.Errorf("%s: %s, %v; want %s", raw, a, err, want)
		}
	}
}

func TestParseAddress_Refused(t *testing.T) {
	for _, raw := range []string{
		"", "x", "/a", "//a.example/b", "https:a.example", "https:/a.example", "https://", "https:///a",
		"ftp://a.example", "file:///a",
		"https://user@a.example/b", "https://a.example#", "https://a.example/b#c", `https://a.example\b`,
		`https:\\a.example/b`,
		"https://a.example/b;c", "https://a.example/b;c/d", "https://a.example/b%3bc", "https://a.example/b%2fc",
		"https://a.example/b%5Cc",
		"https://a.example/b%252fc", "https://a.example/b%23c", "https://a.example/b%3fc",
		"https://a.example/../b", "https://a.example/./b", "https://a.example/%2e%2E/b", "https://a.example/b%09",
		"https://a.example/b%00",
		"https://a.example/b%20", "https://a.example/b%C2%A0", "https://a.example/b%ff", "https://a.example/b\tc",
		"https://a.example/b\nc", " https://a.example/b",
		"https://a.example/b ", "https://a.example/\u00fc", "https://m\u00fcnchen.example/b", "https://a.example./b",
		"https://a%2eexample/b",
		"https://127.1/b", "https://0x7f.0.0.1/b", "https://2130706433/b", "https://0177.0.0.1/b",
		"https://[fe80::1%25eth0]/b", "https://[::1", "https://a.example:99999/b",
		"https://a.example:b/c", "https://a..example/b", "https://-a.example/b",
	} {
		if a, err := ParseAddress(raw); err == nil {
			t.Errorf("%q is read as %s", raw, a)
		}
	}
}

// readings are the paths that libraries and servers read from a URL.
var readings = map[string]func(raw string) string{
	"net/url": func(raw string) string {
		u, _ := url.Parse(raw)
		return u.Path
	},
	"net/http.ServeMux": func(raw string) string {
		u, _ := url.Parse(raw)
		return path.Clean("/" + u.Path)
	},
	"urllib.parse.urlparse": func(raw string) string {
		raw = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(strings.TrimLeft(raw, "\x00\x01\x02\x1f "))
		_, rest, _ := strings.Cut(raw, "://")
		rest, _, _ = strings.Cut(rest, "#")
		rest, _, _ = strings.Cut(rest, "?")
		_, rest, _ = strings.Cut(rest, "/")
		last := strings.LastIndex(rest, "/") + 1
		end, _, _ := strings.Cut(rest[last:], ";")
		return unquoted("/" + rest[:last] + end)
	},
	"parameters of all segments removed": func(raw string) string {
		u, _ := url.Parse(raw)
		segments := strings.Split(u.Path, "/")
		for i, s := range segments {
			segments[i], _, _ = strings.Cut(s, ";")
		}
		return strings.Join(segments, "/")
	},
	"decoded twice": func(raw string) string {
		u, _ := url.Parse(raw)
		return unquoted(u.Path)
	},
	"WHATWG": func(raw string) string {
		raw = strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/").Replace(strings.TrimSpace(raw))
		u, err := url.Parse(raw)
		if err != nil {
			return ""
		}
		return path.Clean("/" + u.Path)
	},
}

// unquoted decodes what can be decoded, and leaves the rest, as urllib.parse.unquote does.
func unquoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if plain, err := url.PathUnescape(s[i:min(i+3, len(s))]); err == nil && s[i] == '%' {
			b.WriteString(plain)
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// agreed fails unless an accepted URL has the same path, up to empty segments, however it is read.
func agreed(t interface{ Errorf(string, ...any) }, raw string) {
	a, err := ParseAddress(raw)
	if err != nil {
		return
	}
	for name, read := range readings {
		segments := slices.DeleteFunc(strings.Split(read(raw), "/"), func(s string) bool { return s == "" })
		if !slices.Equal(segments, a.Path) {
			t.Errorf("%q: %s reads %q, ParseAddress %q", raw, name, segments, a.Path)
		}
	}
	if again, err := ParseAddress(a.String()); err != nil || again.String() != a.String() {
		t.Errorf("%q: %s is read as %s, %v", raw, a, again, err)
	}
}

// Whatever is accepted, all common libraries read the same resource in it.
func TestParseAddress_AgreesWithOthers(t *testing.T) {
	part := rapid.SampledFrom([]string{"/", "jobs", "j-7", "results", ";", ";x=1", "%2f", "%2e", "%252e", ".", "..",
		"%3b", "\\", "\t", "%09", "?", "#", "%6a", "%4", " ", "@", ":", "%00", "ü"})
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SampledFrom([]string{"https://a.example", "HTTP://A.example:80", "https://a.example;x"}).Draw(t,
			"server")
		agreed(t, raw+"/"+strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "path"), ""))
	})
}

func FuzzParseAddress(f *testing.F) {
	f.Add("https://a.example")
	f.Add("https://a.example/jobs/j-7/results;x")
	f.Add(`https:\\a.example/%2e%2e/%256a?b#c`)
	f.Fuzz(func(t *testing.T, raw string) { agreed(t, raw) })
}
