package catalogue

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extended "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"
)

// The renderer escapes all text. What it renders as an element is decided by the document that it gets: [embedded]
// leaves in it only what runs and loads nothing.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		extension.Strikethrough, extension.Linkify),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(embedded{}, 0))),
)

// permitted are the kinds of nodes that are rendered after [embedded.change]. HTML is not among them.
var permitted = []ast.NodeKind{ast.KindDocument, ast.KindTextBlock, ast.KindParagraph, ast.KindHeading,
	ast.KindThematicBreak, ast.KindCodeBlock,
	ast.KindBlockquote, ast.KindList, ast.KindListItem, ast.KindText, ast.KindString, ast.KindCodeSpan,
	ast.KindEmphasis, ast.KindLink, ast.KindAutoLink,
	extended.KindTable, extended.KindTableHeader, extended.KindTableRow, extended.KindTableCell,
	extended.KindStrikethrough}

// embedded prepares a document for a part of a page: its headings come below those of the page, images, which would be
// loaded from elsewhere, become links, and links lead to pages and mail addresses only.
type embedded struct{}

// Transform implements [parser.ASTTransformer].
func (e embedded) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	var nodes []ast.Node
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // fails only if the function does
		if entering {
			nodes = append(nodes, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range nodes {
		e.change(n, reader.Source())
	}
}

func (embedded) change(n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Heading:
		n.Level = min(n.Level+2, 6)
	case *ast.FencedCodeBlock: // the renderer would write its language
		code := ast.NewCodeBlock()
		code.SetLines(n.Lines())
		n.Parent().ReplaceChild(n.Parent(), n, code)
	case *ast.Image:
		link := ast.NewLink()
		link.Destination = n.Destination
		n.Parent().InsertBefore(n.Parent(), n, link)
		moveChildren(n, link, nil)
		n.Parent().RemoveChild(n.Parent(), n)
		changeLink(link)
	case *ast.Link:
		changeLink(n)
	case *ast.AutoLink:
		target := append([]byte(nil), n.URL(source)...)
		if n.AutoLinkType == ast.AutoLinkEmail {
			target = append([]byte("mailto:"), target...)
		}
		if !markLink(n, util.URLEscape(target, false)) {
			label := ast.NewString(n.Label(source))
			label.SetRaw(true) // without references to characters
			n.Parent().ReplaceChild(n.Parent(), n, label)
		}
	default:
		if !slices.Contains(permitted, n.Kind()) {
			n.Parent().RemoveChild(n.Parent(), n)
		}
	}
}

// changeLink makes a link one that leads out of the page; where that is not possible, its text remains.
func changeLink(link *ast.Link) {
	link.Title = nil
	if markLink(link, util.URLEscape(link.Destination, true)) { // as it is rendered
		return
	}
	moveChildren(link, link.Parent(), link)
	link.Parent().RemoveChild(link.Parent(), link)
}

// markLink sets the attributes of a link to an address, or reports false if the address is none of the web or of mail,
// or if the link is part of another one.
func markLink(link ast.Node, target []byte) bool {
	u, err := url.Parse(string(target))
	web := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
	if insideLink(link) || !web && (err != nil || u.Scheme != "mailto") {
		return false
	}
	link.SetAttributeString("rel", []byte("nofollow noreferrer noopener"))
	if web {
		link.SetAttributeString("target", []byte("_blank"))
	}
	return true
}

// moveChildren moves the children of a node to another one, before one of its children; nil: to its end.
func moveChildren(from, to, before ast.Node) {
	for child := from.FirstChild(); child != nil; child = from.FirstChild() {
		if before == nil {
			to.AppendChild(to, child)
		} else {
			to.InsertBefore(to, before, child)
		}
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

// render returns a Markdown text as harmless HTML, and its first sentences as plain text.
func render(description string) (page, summary string) {
	var made bytes.Buffer
	if err := markdown.Convert([]byte(description), &made); err != nil { // a buffer does not fail
		return "", ""
	}
	return made.String(), summarize(plain(textOf(made.String())))
}

// textOf returns the text of HTML.
func textOf(page string) string {
	var all strings.Builder
	tokens := html.NewTokenizer(strings.NewReader(page))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		if kind == html.TextToken {
			all.Write(tokens.Text())
		}
	}
	return all.String()
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
