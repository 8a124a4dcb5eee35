package openeo

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

var _ dispatch.Publisher = (*Platform)(nil)

const (
	publicationLife = 5 * time.Minute // then a document is requested again
	staleGrace      = time.Minute     // for that request, before the document is shown as old
	publishedWithin = 30 * time.Second
	publishedAtOnce = 4     // requests for documents, because everybody may cause one
	maxPublished    = 1_000 // length of the path of a document in bytes, with its query
)

// publishedPath matches the paths of the documents in which a back-end says what it offers. Links to them lead to the
// broker.
const publishedPath = `(/|/conformance|/file_formats|/udf_runtimes|/service_types|/processing_parameters|` +
	`/collections(/[^/?#"]+(/queryables)?)?|/processes(/[^/?#"]+){0,2})(\?[^#"]*)?`

var published = regexp.MustCompile("^" + publishedPath + "$")

// storedProcess matches the paths of processes that users stored at the back-end. Links to them are not the broker's:
// it stores processes itself.
var storedProcess = regexp.MustCompile(`^/process_graphs/[^/?#"]+$`)

type publication struct {
	parts [][]byte
	hash  string
	size  int
	read  time.Time
}

// Published returns a document, or a process that the user stored, from the cache; what users see who have a token is
// kept for each token.
func (p *Platform) Published(ctx context.Context, t dispatch.Token, path string) (dispatch.Publication, error) {
	if len(path) > maxPublished || !published.MatchString(path) && !storedProcess.MatchString(path) ||
		leavesItsFolder(path) {
		return dispatch.Publication{}, &dispatch.Error{Kind: dispatch.Unsupported, Op: opPublished,
			Text: "The platform publishes no document at this path."}
	}
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return dispatch.Publication{}, err
	}
	found, err := p.publications.Get(ctx, upstream.KeyFor(bearer, path), func(ctx context.Context,
		_ publication) (publication, error) {
		return p.fetchPublication(ctx, bearer, path)
	})
	if err != nil {
		return dispatch.Publication{}, err
	}
	return dispatch.Publication{Parts: found.parts, Version: found.hash, Read: found.read,
		Stale: p.publications.Now().Sub(found.read) > publicationLife+staleGrace}, nil
}

const opPublished = "openeo.Published"

func (p *Platform) fetchPublication(ctx context.Context, bearer dispatch.Secret, path string) (publication, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, publishedWithin)
	defer cancel()
	select {
	case p.publishing <- struct{}{}:
		defer func() { <-p.publishing }()
	case <-ctx.Done():
		return publication{}, &dispatch.Error{Kind: dispatch.Busy, Op: opPublished,
			Text: "Too many documents of this platform are being read. Try again later.", Err: ctx.Err()}
	}
	var document map[string]json.RawMessage
	a, err := p.get(ctx, opPublished, path, bearer, &document)
	if absent(a) {
		return publication{}, &dispatch.Error{Kind: dispatch.NotFound, Op: opPublished,
			Text: "The platform has no such document. " + dispatch.TextFor(err), Err: err}
	}
	if err == nil && document == nil { // null
		err = &dispatch.Error{Kind: dispatch.BadUpstream, Op: opPublished,
			Text: "The platform's document is no object."}
	}
	if err != nil {
		return publication{}, err
	}
	f, err := p.backendFacts(ctx)
	if err != nil {
		return publication{}, err
	}
	text := bytes.Clone(bytes.TrimSpace(a.Body)) // the body's memory may be larger than the body
	return publication{cut(text, f.url), dispatch.Document{Body: text}.Hash(), len(text), p.publications.Now()}, nil
}

// cut returns a JSON text in pieces, cut where a string begins with the address of the API and leads to a document that
// is published. The pieces do not contain these addresses. A slash in JSON may be written with a backslash.
func cut(text []byte, address string) (parts [][]byte) {
	links := regexp.MustCompile(`(?:^|[^\\])"(` + strings.ReplaceAll(regexp.QuoteMeta(address), "/", `\\?/`) + `)(?:` +
		strings.ReplaceAll(publishedPath, "/", `\\?/`) + `)?"`)
	begin := 0
	for _, at := range links.FindAllSubmatchIndex(text, -1) {
		parts = append(parts, text[begin:at[2]])
		begin = at[3]
	}
	return append(parts, text[begin:])
}

// leavesItsFolder reports whether a segment of a path, in any encoding, could be taken for another folder. The document
// would be read there with the token of an account.
func leavesItsFolder(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	for segment := range strings.SplitSeq(path, "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "." || plain == ".." || strings.ContainsAny(plain, `/\%`) {
			return true
		}
	}
	return false
}

// Validate sends a process to the back-end's validation.
func (p *Platform) Validate(ctx context.Context, t dispatch.Token, process []byte) ([]byte, error) {
	const op = "openeo.Validate"
	ctx, end := p.answers.Begin(ctx)
	defer end()
	f, bearer, err := p.factsAndBearer(ctx, t)
	if err != nil {
		return nil, err
	}
	call := p.request(op, http.MethodPost, f.url+"/validation", bearer, process)
	call.Effect = false
	a, err := p.Client.Do(ctx, call)
	if absent(a) {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: op,
			Text: "The platform does not validate process graphs.", Err: err}
	}
	if err := refine(a, err); err != nil {
		return nil, err
	}
	var document map[string]json.RawMessage
	return a.Body, upstream.JSON(a, op, &document)
}
