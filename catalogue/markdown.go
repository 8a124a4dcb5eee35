package catalogue

import (
	"bytes"
	"html"
	"regexp"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Two barriers, each of which would suffice: the renderer leaves out HTML and addresses that are not safe, and the policy permits no
// element or attribute that runs or loads anything.
var (
	markdown = goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough, extension.Linkify),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(embedded{}, 0))),
	)
	policy   = shownPolicy()
	textOnly = bluemonday.StrictPolicy()
)

func shownPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|center|right)$`)).OnElements("th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("https", "http", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(false)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return p
}

// embedded prepares a text for a part of a page: its headings come below those of the page, and images, which would be loaded from
// elsewhere, become links.
type embedded struct{}

func (embedded) Transform(document *ast.Document, _ text.Reader, _ parser.Context) {
	var images []*ast.Image
	ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering {
				n.Level = min(n.Level+2, 6)
			}
		case *ast.Image:
			if entering {
				images = append(images, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, image := range images {
		link := ast.NewLink()
		link.Destination, link.Title = image.Destination, image.Title
		for child := image.FirstChild(); child != nil; child = image.FirstChild() {
			link.AppendChild(link, child)
		}
		if insideLink(image) {
			link.Destination = nil
		}
		image.Parent().ReplaceChild(image.Parent(), image, link)
	}
}

func insideLink(n ast.Node) bool {
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == ast.KindLink {
			return true
		}
	}
	return false
}

// mostSummary is the maximum length of a summary in characters.
const mostSummary = 300

// render returns a Markdown text as sanitised HTML, and its first sentences as plain text.
func render(description string) (page, summary string) {
	var made bytes.Buffer
	if err := markdown.Convert([]byte(description), &made); err != nil { // a buffer does not fail
		return "", ""
	}
	page = policy.Sanitize(made.String())
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
