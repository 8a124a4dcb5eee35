package catalogue_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/eodispatch/eodispatch/catalogue"
)

// attacks are texts that run a script, or load something, where a page shows them unchecked.
var attacks = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<svg onload=alert(1)><script>alert(1)</script></svg>`,
	`<svg/onload=alert(1)>`,
	`<a href="javascript:alert(1)">x</a>`, `[x](javascript:alert(1))`, `[x](JaVaScRiPt:alert(1))`,
	`[x](java&#x0A;script:alert(1))`, `[x](&#106;avascript:alert(1))`,
	`<javascript:alert(1)>`, `[x](vbscript:msgbox(1))`,
	`[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)`,
	`![x](data:image/svg+xml;base64,PHN2Zy8+)`,
	`![x](javascript:alert(1))`, `![x](https://tracker.example.org/pixel.png)`,
	`[![x](https://tracker.example.org/p.png)](javascript:alert(1))`,
	`[x]: javascript:alert(1)` + "\n\n[x]", `<iframe srcdoc="<script>alert(1)</script>"></iframe>`,
	`<object data="x.swf"></object>`, `<embed src=x>`,
	`<style>*{background:url(https://tracker.example.org)}</style>`,
	`<p style="background:url(https://tracker.example.org)">x</p>`, `<link rel=stylesheet href=x>`,
	`<meta http-equiv=refresh content="0;url=javascript:alert(1)">`, `<base href="https://evil.example.org/">`,
	`<form action=x><button formaction=javascript:alert(1)>x</button></form>`,
	`<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>`,
	`<noscript><p title="</noscript><img src=x onerror=alert(1)>">`, `<!--><img src=x onerror=alert(1)>-->`,
	`<details open ontoggle=alert(1)>x</details>`, `<x onclick=alert(1)>x`, `"><script>alert(1)</script>`,
	"`<script>alert(1)</script>`", "```html\n<script>alert(1)</script>\n```",
	`[x](https://a.example.org "onclick=alert(1)")`, `[x](https://a.example.org/"onmouseover="alert(1))`,
	"[x](https://a.example.org\" onmouseover=\"alert(1)\")",
	"| a |\n|:--|\n| <script>alert(1)</script> |", `https://a.example.org/<script>alert(1)</script>`,
	"\u202e<script>\u202c", "a\x00<script\x00>alert(1)</script>",
	`[x](//evil.example.org)`, `[x](../../session/sign-out)`, `[x](blob:https://a.example.org/1)`,
	`[x](file:///etc/passwd)`, `<a href="https://a.example.org" target=_self rel=opener>x</a>`,
}

// everywhere returns a value of JSON with every text in it replaced, but for names that say what a record is.
func everywhere(value any, text string) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if !slices.Contains([]string{"rel", "conformsTo"}, name) && !(name == "type" && (member == "Feature" ||
				member == "service")) && name != "id" {
				v[name] = everywhere(member, text)
			}
		}
	case []any:
		for i := range v {
			v[i] = everywhere(v[i], text)
		}
	case string:
		if !strings.HasPrefix(v, "https://openeofed.") && v != "https://apps.example.org/p.json" {
			return text
		}
	}
	return value
}

const someRecord = `{"id": "one", "type": "Feature", "conformsTo": ["https://apex.esa.int/core/openeo-udp"],
	"properties": {"type": "service", "title": "One", "description": "It does **one** thing.", "keywords": ["a", "b"], "license": "MIT",
		"created": "2026-01-01T00:00:00Z", "updated": "2026-01-02", "cost_estimate": 1.5, "cost_unit": "credits", "formats": [{"name": "GTiff"}],
		"publisher": {"name": "P"}, "contacts": [{"organization": "P", "links": [{"rel": "about", "href": "https://p.example.org", "title": "P", "type": "text/html"}]}]},
	"links": [{"rel": "service", "href": "https://openeofed.dataspace.copernicus.eu", "title": "s", "type": "application/json"},
		{"rel": "application", "href": "https://apps.example.org/p.json", "title": "a", "type": "application/vnd.openeo+json;type=process"},
		{"rel": "thumbnail", "href": "https://p.example.org/t.png", "title": "t", "type": "image/png"},
		{"rel": "code", "href": "https://p.example.org/code", "title": "c", "type": "text/html"}, {"rel": "contact", "href": "mailto:a@example.org", "title": "m"}]}`

// TestHostileRecords_RunNothing puts each attack into every text of a record, one text at a time and all together.
func TestHostileRecords_RunNothing(t *testing.T) {
	folder := t.TempDir()
	for i, attack := range attacks {
		var record map[string]any
		if err := json.Unmarshal([]byte(someRecord), &record); err != nil {
			t.Fatal(err)
		}
		record["id"] = fmt.Sprintf("attack-%d", i)
		text, err := json.Marshal(everywhere(record, attack))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.json", i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := read(t, nil, folder)
	if got := len(all(t, c)); got != len(attacks) {
		t.Errorf("%d of %d are services; %v", got, len(attacks), c.Rejections())
	}
	for _, s := range all(t, c) {
		checkHTML(t, s)
		for _, l := range append(s.Links, catalogue.Link{Href: s.Thumbnail}, catalogue.Link{Href: s.Provider.URL}) {
			if !harmless(l.Href) {
				t.Errorf("%s: leads to %q", s.ID, l.Href)
			}
		}
		for _, text := range append(append([]string{s.Title, s.Summary, s.Licence, s.Cost.Unit, s.Provider.Name},
			s.Keywords...), s.Formats...) {
			if strings.ContainsAny(text, "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\x00\n") {
				t.Errorf("%s: %q", s.ID, text)
			}
		}
	}
}

// FuzzDescription: whatever Markdown a record has, its HTML has harmless elements and attributes only, which are closed
// in order.
func FuzzDescription(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack)
	}
	f.Add("[a [b](https://b.example.org) ![c](https://c.example.org) <https://d.example.org>](https://e.example.org)")
	f.Add("![<https://a.example.org> ![b [c](https://c.example.org)](https://b.example.org)](https://d.example.org)")
	f.Add("[0<http://0>](http://0)")
	f.Add("[x](http:) [y](https:/z) [z](mailto:)")
	f.Add("![a [b](https://b.example.org) ![c](https://c.example.org) https://d.example.org " +
		"me@example.org](https://e.example.org)")
	f.Fuzz(func(t *testing.T, text string) {
		var record map[string]any
		if err := json.Unmarshal([]byte(someRecord), &record); err != nil {
			t.Fatal(err)
		}
		record["properties"].(map[string]any)["description"] = text
		file := filepath.Join(t.TempDir(), "one.json")
		written, err := json.Marshal(record)
		if err == nil {
			err = os.WriteFile(file, written, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := read(t, nil, filepath.Dir(file)).Find("one"); ok {
			checkHTML(t, s)
		}
	})
}

// TestMarkdown_KeepsWhatIsHarmless: what descriptions need is not removed.
func TestMarkdown_KeepsWhatIsHarmless(t *testing.T) {
	const text = "# Head\\n\\nA *b* **c** ~~d~~ `e`, <https://f.example.org>, [g](https://g.example.org), " +
		"[m](mailto:a@example.org).\\n\\n1. one\\n2. two\\n\\n- three\\n\\n" +
		"> quoted\\n\\n```\\ncode\\n```\\n\\n| h |\\n|--:|\\n| 1 |\\n\\n![chart](https://i.example.org/c.png)"
	file := filepath.Join(t.TempDir(), "one.json")
	if err := os.WriteFile(file, []byte(strings.Replace(someRecord, "It does **one** thing.", text, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	c := read(t, nil, filepath.Dir(file))
	s, ok := c.Find("one")
	if !ok {
		t.Fatal(c.Rejections())
	}
	checkHTML(t, s)
	for _, want := range []string{"<h3>Head</h3>", "<em>b</em>", "<strong>c</strong>", "<del>d</del>", "<code>e</code>",
		`<a href="https://f.example.org"`, `<a href="https://g.example.org"`,
		`<a href="mailto:a@example.org"`, "<ol>", "<li>three</li>", "<blockquote>", "<pre><code>code",
		`<td align="right">1</td>`, `<a href="https://i.example.org/c.png"`, ">chart</a>"} {
		if !strings.Contains(s.HTML, want) {
			t.Errorf("%s is not in\n%s", want, s.HTML)
		}
	}
	if want := "Head A b c d e, https://f.example.org, g, m. one two three quoted code h 1 chart"; s.Summary != want {
		t.Errorf("summary %q", s.Summary)
	}
}

var elements = []string{"p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3",
	"h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "a"}

// checkHTML parses a description as a browser does, and checks that it has harmless elements and attributes only.
func checkHTML(t *testing.T, s catalogue.Service) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(strings.NewReader(s.HTML))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		token := z.Token()
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			if !slices.Contains(elements, token.Data) {
				t.Errorf("%s: %s in\n%s", s.ID, token, s.HTML)
			}
			open = nest(t, open, kind, token.Data, s.HTML)
		case html.CommentToken, html.DoctypeToken:
			t.Errorf("%s: %s in\n%s", s.ID, token, s.HTML)
		}
		for _, a := range token.Attr {
			allowed := slices.Contains([]string{"align", "start", "rel", "target", "href"}, a.Key)
			if !allowed || a.Key == "href" && !harmless(a.Val) ||
				a.Key == "rel" && (!strings.Contains(a.Val, "noreferrer") ||
					!strings.Contains(a.Val, "nofollow")) {
				t.Errorf("%s: %s in\n%s", s.ID, token, s.HTML)
			}
		}
	}
}

// nest follows the elements that are open, and checks that each is closed before the one around it, and that no link is
// in another one.
func nest(t *testing.T, open []string, kind html.TokenType, element, page string) []string {
	t.Helper()
	switch {
	case slices.Contains([]string{"br", "hr"}, element):
	case kind == html.EndTagToken && len(open) > 0 && open[len(open)-1] == element:
		return open[:len(open)-1]
	case kind == html.EndTagToken, element == "a" && slices.Contains(open, "a"):
		t.Errorf("%s inside %v in\n%s", element, open, page)
	default:
		return append(open, element)
	}
	return open
}

// harmless reports whether an address, if there is one, is an absolute one of the web or of mail.
func harmless(href string) bool {
	u, err := url.Parse(href)
	return href == "" || err == nil && (u.Scheme == "https" && u.Host != "" || u.Scheme == "http" && u.Host != "" ||
		u.Scheme == "mailto")
}

// TestOddRecords_AreServicesOrHaveAReason: members of wrong types count as absent, and every file that claims to be a
// record is accounted for.
func TestOddRecords_AreServicesOrHaveAReason(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(someRecord) }
	for text, want := range map[string]string{
		edit(`"keywords": ["a", "b"]`, `"keywords": {"a": 1}`, `"license": "MIT"`, `"license": 7`,
			`"cost_estimate": 1.5`, `"cost_estimate": "cheap"`): "",
		edit(`"cost_estimate": 1.5`, `"cost_estimate": 1e999`, `"formats": [{"name": "GTiff"}]`,
			`"formats": ["GTiff", 3]`): "",
		edit(`"contacts": [`, `"contacts": [null, 1, `, `"updated": "2026-01-02"`,
			`"updated": "soon"`): "",
		edit(`"title": "One"`, `"title": null`): "",
		edit(`"id": "one"`, `"id": 1`):          "it has no id",
		edit(`"id": "one"`, `"id": ".."`):       "its id has spaces",
		edit(`"id": "one"`, `"id": "a/b"`):      "its id has spaces",
		edit(`"id": "one"`, `"id": "`+strings.Repeat("x", 201)+
			`"`): "its id is longer than 200 bytes",
		edit(`"type": "service"`, `"type": "dataset"`):           `its type is "dataset"`,
		edit(`"type": "service"`, `"type": 3`):                   "it is not a record",
		edit(`"rel": "service"`, `"rel": "services"`):            "it has no link service",
		edit(`"rel": "application"`, `"rel": "app"`):             "it has no link application",
		edit(`"https://apps.example.org/p.json"`, `"../p.json"`): "it has no link application",
		edit(`"https://apps.example.org/p.json"`,
			`"http://10.0.0.1/p.json"`): "only https is allowed",
		edit(`"https://apex.esa.int/core/openeo-udp"`, `"wps"`, `application/vnd.openeo+json;type=process`,
			`x`): "its conformsTo names neither",
		edit(`"https://apex.esa.int/core/openeo-udp"`, `3`): "",
		edit(`https://openeofed.dataspace.copernicus.eu`,
			`https://elsewhere.example.org`): "is not one of the platforms that are configured",
		edit(`"properties": {`, `"properties": null, "old": {`): "it is not a record",
		`{"type": "Feature", "properties": {"type": "service"}`: "it is not JSON",
		"{\"type\": \"Feature\", \"id\": \"\xff\"}":             "it is not JSON",
		`{"type": "Feature"` + strings.Repeat(" ", 5<<20) + `}`: "more than 4,194,304 bytes",
		strings.Repeat(`{"type": "Feature", "properties": `, 9000) + "1" +
			strings.Repeat("}", 9000): "its type is",
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "one.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := read(t, nil, folder)
		refused := c.Rejections()
		switch {
		case len(all(t, c))+len(refused) != 1:
			t.Errorf("%.300s: %d services, %v", text, len(all(t, c)), refused)
		case want == "" && len(refused) > 0, want != "" &&
			(len(refused) == 0 || !strings.Contains(refused[0].Reason, want)):
			t.Errorf("%.300s: %v, want %q", text, refused, want)
		}
	}
}

// TestHostileMarkdown_IsCut renders texts that take a renderer a time that grows with the square of their length. They
// are cut, so that this ends; without the cut it takes minutes.
func TestHostileMarkdown_IsCut(t *testing.T) {
	for _, part := range []string{">", "[a]("} {
		folder := t.TempDir()
		text, err := json.Marshal(strings.Repeat(part, (256<<10)/len(part)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "one.json"),
			[]byte(strings.Replace(someRecord, `"It does **one** thing."`, string(text), 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		c := read(t, nil, folder)
		s, ok := c.Find("one")
		if !ok {
			t.Errorf("%q: %v", part, c.Rejections())
		}
		if len(s.Description) > 17<<10 {
			t.Errorf("%q: %d bytes are left", part, len(s.Description))
		}
		checkHTML(t, s)
	}
}
