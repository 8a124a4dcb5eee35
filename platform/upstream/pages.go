package upstream

import (
	"iter"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// maxPages is how many pages of one list are read.
const maxPages = 1000

// Pages yields the pages of a list. read returns a page, the response that it was read from, and the link to the next;
// "" on the last. Tokens are sent to no other origin, so a link to another origin is an error, as is one to an earlier
// page: the pages would be incomplete.
func Pages[P any](op, url string, read func(url string) (page P, from *Answer, next string, err error)) iter.Seq2[P,
	error] {
	return func(yield func(P, error) bool) {
		var none P
		fail := func(text string) {
			yield(none, &dispatch.Error{Kind: dispatch.BadUpstream, Op: op, Text: text})
		}
		seen, size := map[string]bool{}, int64(0)
		for {
			switch err := bounds.PagesBytes.Check(size); {
			case seen[url], len(seen) == maxPages:
				fail("The platform's list has too many pages, or a page links back to an earlier one.")
				return
			case err != nil:
				fail("The platform's pages have " + err.Error() + ".")
				return
			}
			seen[url] = true
			page, from, next, err := read(url)
			if !yield(page, err) || err != nil || next == "" {
				return
			}
			at, err := from.URL.Parse(next)
			if err != nil || !SameOrigin(at.String(), url) {
				fail("The platform's list continues on another server, which is not followed.")
				return
			}
			url, size = at.String(), size+int64(len(from.Body))
		}
	}
}
