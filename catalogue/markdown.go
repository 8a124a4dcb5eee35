package catalogue

import (
	"bytes"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// What the renderer writes is sanitized afterwards: harmless leaves in it only what runs and loads nothing.
var (
	markdown = goldmark.New(
		goldmark.WithExtensions(extension.Strikethrough, extension.Linkify,
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(embedded{}, 0))),
	)
	harmless = onlyHarmless()
	textOnly = bluemonday.StrictPolicy()
)

func onlyHarmless() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3", "h4",
		"h5", "h6", "table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("align").Matching(bluemonday.CellAlign).OnElements("th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("mailto")
	for _, scheme := range []string{"https", "http"} {
		p.AllowURLSchemeWithCustomPolicy(scheme, func(u *url.URL) bool { return u.Hostname() != "" })
	}
	p.RequireParseableURLs(true)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return p
}

// embedded renders what differs in a part of a page: headings come below those of the page, images, which would be
// loaded from elsewhere, are links, and no link is in another one.
type embedded struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (e embedded) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, e.heading)
	for _, kind := range linked {
		r.Register(kind, e.link)
	}
}

func (embedded) heading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	format := "</h%d>\n"
	if entering {
		format = "<h%d>"
	}
	fmt.Fprintf(w, format, min(n.(*ast.Heading).Level+2, 6))
	return ast.WalkContinue, nil
}

// linked are the kinds of nodes that are rendered as links.
var linked = []ast.NodeKind{ast.KindLink, ast.KindImage, ast.KindAutoLink}

func (embedded) link(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	var target, label []byte
	switch n := n.(type) {
	case *ast.Link:
		target = n.Destination
	case *ast.Image:
		target = n.Destination
	case *ast.AutoLink:
		target, label = n.URL(source), n.Label(source)
		if n.AutoLinkType == ast.AutoLinkEmail {
			target = append([]byte("mailto:"), target...)
		}
	}
	outermost := true
	for p := n.Parent(); p != nil; p = p.Parent() {
		outermost = outermost && !slices.Contains(linked, p.Kind())
	}
	switch {
	case entering && outermost:
		fmt.Fprintf(w, `<a href="%s">%s`, util.EscapeHTML(util.URLEscape(target, label == nil)), util.EscapeHTML(label))
	case entering:
		_, _ = w.Write(util.EscapeHTML(label))
	case outermost:
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

// mostSummary is the maximum length of a summary in characters.
const mostSummary = 300

// render returns a Markdown text as harmless HTML, and its first sentences as plain text.
func render(description string) (page, summary string) {
	var made bytes.Buffer
	if err := markdown.Convert([]byte(description), &made); err != nil { // a buffer does not fail
		return "", ""
	}
	page = harmless.Sanitize(made.String())
	return page, summarize(plain(html.UnescapeString(textOnly.Sanitize(page))))
}

// sentenceEnd matches the end of a sentence: a full stop after a letter or a closing mark, before a capital letter.
var sentenceEnd = regexp.MustCompile(`[\p{L}\p{N})\]"'”’][.!?]["'”’)]? \p{Lu}`)

// summarize returns as many sentences of a text as fit, or the beginning of the first.
func summarize(text string) string {
	if len([]rune(text)) <= mostSummary {
		return text
	}
	head := string([]rune(text)[:mostSummary-1])
	if ends := sentenceEnd.FindAllStringIndex(head, -1); len(ends) > 0 {
		cut := head[:ends[len(ends)-1][1]]
		return cut[:strings.LastIndexByte(cut, ' ')]
	}
	if space := strings.LastIndexByte(head, ' '); space > 0 {
		head = head[:space]
	}
	return strings.TrimRight(head, " ,;:") + "…"
}
