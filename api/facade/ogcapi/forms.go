package ogcapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// outcome is an output of a job with the way in which its client wants it.
type outcome struct {
	dispatch.OutputValue
	link bool // as a link
	raw  bool // in a document as the platform wrote it
}

// qualified is a value in a results document. The standard allows objects only in this form.
type qualified struct {
	Value    json.RawMessage `json:"value"`
	Encoding string          `json:"encoding,omitempty"`
	Media    string          `json:"mediaType"`
}

// isJSON reports whether values of a media type are JSON texts.
func isJSON(media string) bool {
	base, _, _ := mime.ParseMediaType(media)
	return base == mediaJSON || strings.HasSuffix(base, "+json")
}

// written returns outputs of a job in the form that the standard has for their number and their transmission.
func written(in *request, id dispatch.JobID, response string, all []outcome) (*answer, error) {
	switch {
	case response == document:
		body := map[string]any{}
		for _, o := range all {
			body[o.Name] = o.inDocument(in, id)
		}
		return &answer{Body: body}, nil
	case len(all) == 0:
		return nil, exception{Type: typeNoOutput, Status: http.StatusNotFound,
			Detail: "The platform gave none of the outputs that the execution names."}
	case !slices.ContainsFunc(all, func(o outcome) bool { return !o.isLink() }):
		a := &answer{Header: http.Header{}}
		for _, o := range all {
			a.Header.Add("Link", o.header(in, id))
		}
		return a, nil
	case len(all) == 1:
		return all[0].asIs(), nil
	case asksForJSON(in.Header): // as of version 2.0
		return written(in, id, document, all)
	}
	return related(in, id, all)
}

func (o outcome) isLink() bool { return o.link || o.Link != "" }

// href returns where the output is: at the platform, or here.
func (o outcome) href(in *request, id dispatch.JobID) string {
	if o.Link == "" {
		return fmt.Sprintf("%s/jobs/%d/results/%s", in.root, id, url.PathEscape(o.Name))
	}
	u, err := url.Parse(o.Link)
	if err != nil {
		return ""
	}
	return u.String()
}

// header returns a link to the output as a header (RFC 8288), whose relation is the output's identifier.
func (o outcome) header(in *request, id dispatch.JobID) string {
	return fmt.Sprintf(`<%s>; rel="%s"; type="%s"`, strings.ReplaceAll(o.href(in, id), ">", "%3E"), inHeader(o.Name),
		inHeader(cmp.Or(o.Media, "application/octet-stream")))
}

// inHeader returns a text of a platform in a form that ends neither a quoted text nor a header.
func inHeader(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, text)
}

// inDocument returns the output in a document (inlineOrRefData.yaml).
func (o outcome) inDocument(in *request, id dispatch.JobID) any {
	switch {
	case o.raw && o.Inline != nil && (!o.link || o.Link != ""):
		return o.Inline
	case o.isLink():
		return link{Href: o.href(in, id), Type: o.Media}
	case !isJSON(o.Media):
		return o.encoded()
	case bytes.HasPrefix(bytes.TrimSpace(o.Data), []byte("{")):
		return qualified{Value: o.Data, Media: o.Media}
	}
	return json.RawMessage(o.Data)
}

// encoded returns a value that is not JSON: a text, or bytes in base64.
func (o outcome) encoded() qualified {
	q := qualified{Media: cmp.Or(o.Media, "application/octet-stream")}
	if strings.HasPrefix(o.Media, "text/") {
		q.Value, _ = json.Marshal(strings.ToValidUTF8(string(o.Data), "\uFFFD")) // cannot fail
		return q
	}
	q.Value, _ = json.Marshal(base64.StdEncoding.EncodeToString(o.Data)) // cannot fail
	q.Encoding = "base64"
	return q
}

// asIs returns the bytes of an output.
func (o outcome) asIs() *answer {
	if o.Data == nil {
		o.Data = []byte{} // an empty body, and not none
	}
	if o.Media == mediaJSON {
		return &answer{Data: o.Data}
	}
	return &answer{Data: o.Data, MediaType: facade.InertType(o.Media),
		Header: http.Header{"Content-Security-Policy": {facade.Sandbox}}}
}

// related returns several outputs (RFC 2387), of which links have no body.
func related(in *request, id dispatch.JobID, all []outcome) (*answer, error) {
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	for _, o := range all {
		media := inHeader(facade.InertType(o.Media))
		header := textproto.MIMEHeader{"Content-Type": {media}, "Content-ID": {inHeader(o.Name)}}
		if o.isLink() {
			header.Set("Content-Location", o.href(in, id))
		}
		part, err := parts.CreatePart(header)
		if err != nil {
			return nil, err
		}
		if o.isLink() {
			continue
		}
		if _, err := part.Write(o.Data); err != nil {
			return nil, err
		}
	}
	if err := parts.Close(); err != nil {
		return nil, err
	}
	return &answer{Data: body.Bytes(), MediaType: mime.FormatMediaType("multipart/related",
		map[string]string{"boundary": parts.Boundary(), "type": facade.InertType(all[0].Media)}),
		Header: http.Header{"Content-Security-Policy": {facade.Sandbox}}}, nil
}

// negotiated returns one output as the client accepts it: its value, or a link or a value in JSON.
func negotiated(in *request, id dispatch.JobID, o outcome) (*answer, error) {
	switch {
	case o.Link != "" && accepts(in.Header, mediaJSON):
		return &answer{Body: o.inDocument(in, id), Header: http.Header{"Vary": {"Accept"},
			"Link": {o.header(in, id)}}}, nil
	case o.Link != "":
		return &answer{Header: http.Header{"Link": {o.header(in, id)}}}, nil
	case accepts(in.Header, o.Media):
		return o.asIs(), nil
	case accepts(in.Header, mediaJSON):
		return &answer{Body: o.encoded(), Header: http.Header{"Vary": {"Accept"}}}, nil
	}
	return nil, exception{Status: http.StatusNotAcceptable,
		Detail: fmt.Sprintf("The output has the media type %s. It can also be had as application/json.",
			dispatch.Shortened(o.Media))}
}

// asksForJSON reports whether a client names JSON among what it accepts, and neither several parts nor anything.
func asksForJSON(h http.Header) bool {
	accepted := strings.Join(h.Values("Accept"), ",")
	return strings.Contains(accepted, mediaJSON) && !strings.Contains(accepted, "multipart/") &&
		!strings.Contains(accepted, "*/*")
}

// accepts reports whether a client accepts a media type (RFC 9110, section 12.5.1).
func accepts(h http.Header, media string) bool {
	ranges := h.Values("Accept")
	if len(ranges) == 0 {
		return true
	}
	base, _, _ := mime.ParseMediaType(media)
	kind, _, _ := strings.Cut(base, "/")
	for one := range strings.SplitSeq(strings.Join(ranges, ","), ",") {
		accepted, params, err := mime.ParseMediaType(strings.TrimSpace(one))
		if err != nil || strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
			continue
		}
		if accepted == "*/*" || accepted == base || accepted == kind+"/*" {
			return true
		}
	}
	return false
}
