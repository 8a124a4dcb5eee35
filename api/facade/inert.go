package facade

import "regexp"

// active matches the media types that a browser runs, or applies to a page, from the page's own origin: with nosniff,
// nothing else is taken for a script or a style sheet. Types of messages have headers in the body, and browsers have
// set cookies of this service by them.
var active = regexp.MustCompile(`(?i)(java|ecma|j|live)script|css|wasm|manifest|appcache|multipart/[^b]|message/`)

// Sandbox is the content security policy with which files of platforms are passed on: a file that is a page must not
// act as a page of this service.
const Sandbox = "sandbox"

// InertType returns the media type of a file as it is passed on. A file whose type is active, or not known, gets that
// of any bytes.
func InertType(media string) string {
	if media == "" || active.MatchString(media) {
		return "application/octet-stream"
	}
	return media
}

// What is passed on of a request for a file, and of the response.
var (
	FileAsked = []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}
	FileSent  = []string{"Content-Type", "Content-Length", "Content-Range", "Content-Encoding", "Accept-Ranges", "Etag",
		"Last-Modified"}
)

// Chosen returns the headers with the given names.
func Chosen(all map[string][]string, names []string) map[string][]string {
	chosen := map[string][]string{}
	for _, name := range names {
		if values := all[name]; len(values) > 0 {
			chosen[name] = values
		}
	}
	return chosen
}
