package openeo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const wellKnownPath = "/.well-known/openeo"

func (f *Facade) discoveryOperations() []operation {
	return []operation{
		{method: "GET", path: wellKnownPath, serve: f.wellKnown, unlisted: true},
		{method: "GET", path: "/", serve: f.capabilities, access: optional, unlisted: true},
		{method: "GET", path: "/conformance", serve: f.conformance},
		{method: "GET", path: "/credentials/oidc", serve: f.identityProviders},
		{method: "GET", path: "/me", serve: f.me, access: signedIn},
		{method: "GET", path: "/service_types", serve: f.serviceTypes, access: optional},
		{method: "GET", path: "/file_formats", serve: f.published, access: optional, passed: true},
		{method: "GET", path: "/collections", serve: f.published, access: optional, passed: true},
		{method: "GET", path: "/collections/{collection_id}", serve: f.published, access: optional, passed: true},
		{method: "GET", path: "/collections/{collection_id}/queryables", serve: f.published, access: optional,
			passed: true},
		{method: "GET", path: "/processes", serve: f.published, access: optional, passed: true},
		{method: "GET", path: "/processes/{namespace}", serve: f.namespaceProcesses, access: optional, passed: true},
		{method: "GET", path: "/processes/{namespace}/{process_id}", serve: f.namespaceProcess, access: optional,
			passed: true},
		{method: "GET", path: "/udf_runtimes", serve: f.published, access: optional, passed: true},
		{method: "GET", path: "/processing_parameters", serve: f.processingParameters, access: optional},
		{method: "POST", path: "/validation", serve: f.validate, access: optional, passed: true},
	}
}

type link struct {
	Rel   string `json:"rel"`
	Href  string `json:"href"`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// wellKnown lists the versions of the API; to a client that has chosen one by its URL, only that.
func (f *Facade) wellKnown(r *request) (*answer, error) {
	var all []map[string]any
	for _, v := range versions {
		if r.view.version == v || r.view.version == (version{}) {
			all = append(all, map[string]any{"url": r.rootOf(v), "api_version": v.number, "production": true})
		}
	}
	return &answer{Body: map[string]any{"versions": all}}, nil
}

// rootOf returns the URL of the root of a version of the view.
func (r *request) rootOf(v version) string { return r.BaseURL(r.outer) + r.view.above + v.path }

// published passes on what the view's platform publishes at the path of the request.
func (f *Facade) published(r *request) (*answer, error) {
	if r.view.merged() {
		return f.mergedPublication(r)
	}
	path, err := r.publishedPath()
	if err != nil {
		return nil, err
	}
	part, err := r.listPart()
	if err != nil {
		return nil, err
	}
	p, err := f.read(r, r.view.backend, path)
	if err != nil {
		return nil, err
	}
	return publicationAnswer(part.of(p), r.root, r.URL.Path), nil
}

const (
	listWithin = 10 * time.Second // for a list that is in no cache. It goes on being read, for those who ask again
	oneWithin  = 5 * time.Second  // for anything else
)

// read reads a document that a platform publishes.
func (f *Facade) read(r *request, b *dispatch.Backend, path string) (dispatch.Publication, error) {
	within := oneWithin
	if memberAt(path) != "" {
		within = listWithin
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	p, err := f.Broker.Published(ctx, r.user, b.Name, path)
	switch {
	case err == nil:
		return p, nil
	case ctx.Err() != nil && r.Context().Err() == nil:
		return p, refused(http.StatusServiceUnavailable, "InfrastructureBusy",
			fmt.Sprintf("The platform %s has not responded within %.0f seconds. Try again later.", b.Name,
				within.Seconds()))
	case dispatch.Is(err, dispatch.SignInRequired) && r.user == "":
		return p, errNoToken
	case dispatch.Is(err, dispatch.Unsupported):
		err = &dispatch.Error{Kind: dispatch.NotFound, Op: "openeo.read", Text: "The platform has no such document.",
			Err: err}
	}
	if strings.HasPrefix(path, "/collections/") {
		err = notFound(err, "CollectionNotFound")
	}
	return p, err
}

// publishedPath returns the path of a published document with its query. Everybody may cause requests for documents, so
// a query is that of a user who has signed in. What selects a part of a list does not count, see listPart.
func (r *request) publishedPath() (string, error) {
	query := r.URL.Query()
	query.Del("limit")
	query.Del(fromParameter)
	switch {
	case len(query) == 0:
		return r.URL.EscapedPath(), nil
	case r.user == "":
		return "", errNoToken
	}
	return r.URL.EscapedPath() + "?" + query.Encode(), nil
}

func mediaTypeOf(path string) string {
	if strings.HasSuffix(path, "/queryables") {
		return "application/schema+json"
	}
	return ""
}

// publicationAnswer returns a document with links to the root of a view. If it is old, or a part of it, it says so in
// itself, because clients do not show headers, and in the headers Age (RFC 9111) and Warning. The members of
// /udf_runtimes are the runtimes, so there only headers say so.
func publicationAnswer(p dispatch.Publication, root, path string) *answer {
	out := &answer{MediaType: mediaTypeOf(path), Header: http.Header{}}
	if p.Stale {
		out.Header.Set("Age", strconv.Itoa(int(time.Since(p.Read).Seconds())))
		out.Header.Set("Warning", `110 eodispatch "Response is Stale"`)
		if path != "/udf_runtimes" {
			p.Parts = append([][]byte{markOld(p.Parts[0], p.Read)}, p.Parts[1:]...)
		}
	}
	out.Header.Set("Content-Length", strconv.Itoa(p.Size(root)))
	out.Write = func(w http.ResponseWriter) error {
		w.WriteHeader(http.StatusOK)
		return p.Write(w, root)
	}
	return out
}

// markOld adds to the beginning of a JSON object when it was read.
func markOld(begin []byte, read time.Time) []byte {
	member := `{"eodispatch:stale_since":"` + read.UTC().Format(time.RFC3339) + `"`
	rest := bytes.TrimLeft(begin[1:], " \t\r\n")
	if !bytes.HasPrefix(rest, []byte("}")) {
		member += ","
	}
	return append([]byte(member), rest...)
}

// serviceTypes lists no types of secondary web services, because none are offered.
func (f *Facade) serviceTypes(*request) (*answer, error) {
	return &answer{Body: struct{}{}}, nil
}

// validate returns what the platform says about a process.
func (f *Facade) validate(r *request) (*answer, error) {
	process, err := r.object()
	if err != nil {
		return nil, err
	}
	if err := r.replaceAddresses(process, "process_graph"); err != nil {
		return nil, err
	}
	backend := r.view.backend
	if backend == nil {
		if backend, err = f.choose(r, process); err != nil {
			return validationFailure(err)
		}
	}
	text, err := dispatch.Encode(process)
	if err != nil {
		return nil, err
	}
	if c, ok := f.callAt(backend, text); ok {
		return f.validateCall(r, c)
	}
	if backend.Label != dispatch.OpenEO {
		return validationFailure(noGraphs(backend))
	}
	if err := checkShape(r.Context(), backend, text); err != nil {
		return validationFailure(graphError(err))
	}
	if text, _, err = f.inlined(r, backend, text, ""); err != nil {
		return validationFailure(err)
	}
	faults, err := f.Broker.Validate(r.Context(), r.user, backend.Name, text)
	if dispatch.Is(err, dispatch.Invalid) || dispatch.Is(err, dispatch.DocumentInvalid) {
		return validationFailure(graphError(err))
	}
	if dispatch.Is(err, dispatch.SignInRequired) && r.user == "" {
		err = errNoToken
	}
	if err != nil {
		return nil, err
	}
	return &answer{Body: json.RawMessage(faults)}, nil
}

// checkShape returns what is wrong with a process whatever processes its platform has, and why batch jobs with it are
// refused.
func checkShape(ctx context.Context, b *dispatch.Backend, process json.RawMessage) error {
	sent, err := decoded(process)
	if err != nil {
		return err
	}
	if _, err := nodesIn(sent, true); err != nil {
		return err
	}
	runner, can := b.Platform.(dispatch.GraphRunner)
	if !can {
		return nil
	}
	err = runner.CheckGraph(ctx, dispatch.Request{Label: b.Label, Service: dispatch.Service{Endpoint: b.Endpoint},
		Process: process, Parameters: json.RawMessage("{}")}, nil)
	if dispatch.Is(err, dispatch.DocumentInvalid) {
		return err
	}
	return nil // the broker reports all other faults, such as missing permissions
}

// validateCall checks the call of a service as if it were to be run.
func (f *Facade) validateCall(r *request, c call) (*answer, error) {
	if r.user == "" {
		return nil, errNoToken
	}
	request, err := c.request(nil, map[string]json.RawMessage{})
	if err != nil {
		return validationFailure(err)
	}
	if err := f.Broker.CheckRequest(r.Context(), r.user, request, nil); err != nil {
		return validationFailure(callError(err))
	}
	return &answer{Body: map[string]any{"errors": []any{}}}, nil
}
