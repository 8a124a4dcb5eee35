package catalogue

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Query selects services. Empty members select all.
type Query struct {
	Words     string   // each must occur in the texts of a service; case and accents do not matter
	Platforms []string // names, of which a service is at one
	Keywords  []string // all of which a service has; case does not matter
	Limit     int      // maximum number of services; 0: all
	After     string   // the Next of the page before
}

// Page is a part of the services that a query selects: those with the words in their titles come first, then in the
// order of titles.
type Page struct {
	Services  []Service
	Next      string // After of the next page; "": this is the last
	Total     int    // services on all pages
	Platforms []Count
	Keywords  []Count
}

// Count is a platform or a keyword, and how many services have it that the rest of the query selects. The most frequent
// come first.
type Count struct {
	Name     string
	Services int
}

// mostCounts is the maximum number of keywords of a Page.
const mostCounts = 200

// Search returns the services that a query selects. ok is false if q.After is not the Next of a page.
func (c *Catalogue) Search(q Query) (page Page, ok bool) {
	words := strings.Fields(fold(q.Words))
	platforms, kept := counts{}, counts{}
	var found []entry
	for _, e := range c.all() {
		var matches bool
		if e.at.Rank, matches = e.rank(words); !matches {
			continue
		}
		onPlatform, hasKeywords := len(q.Platforms) == 0 || e.isAt(q.Platforms), e.hasAll(q.Keywords)
		if hasKeywords {
			for _, h := range e.Placements() {
				platforms.add(h.Platform)
			}
		}
		if onPlatform {
			kept.add(e.Keywords...)
		}
		if onPlatform && hasKeywords {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return a.at.compare(b.at) })
	page = Page{Total: len(found), Platforms: platforms.sorted(), Keywords: kept.sorted()}
	page.Keywords = page.Keywords[:min(len(page.Keywords), mostCounts)]
	return page.cut(found, q)
}

// cut adds the services after q.After to a page.
func (p Page) cut(found []entry, q Query) (Page, bool) {
	if q.After != "" {
		after, ok := parsePosition(q.After)
		if !ok {
			return Page{}, false
		}
		found = slices.DeleteFunc(found, func(s entry) bool { return s.at.compare(after) <= 0 })
	}
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
		p.Next = found[q.Limit-1].at.String()
	}
	for _, s := range found {
		p.Services = append(p.Services, s.Service)
	}
	return p, true
}

// entry is a service as it is searched.
type entry struct {
	Service
	at    position // if no words are searched for
	texts string   // folded
}

func newEntry(s Service) entry {
	texts := append([]string{s.ID, s.Description, s.Provider.Name}, s.Keywords...)
	for _, h := range s.Placements() {
		texts = append(texts, h.Platform)
	}
	title := fold(s.Title)
	return entry{s, position{0, title, s.ID}, title + " " + fold(strings.Join(texts, " "))}
}

// position orders services: those with the words in their titles first, then by title.
type position struct {
	Rank  int
	Title string
	ID    string
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.Rank, q.Rank), strings.Compare(p.Title, q.Title), strings.Compare(p.ID, q.ID))
}

// String returns the position as text for a cursor.
func (p position) String() string {
	text, _ := json.Marshal(p) // cannot fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePosition(text string) (p position, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return p, err == nil && json.Unmarshal(raw, &p) == nil
}

// rank returns 0 if all words are in the title, 1 if they are in the texts, and whether they are.
func (e entry) rank(words []string) (rank int, matches bool) {
	if hasWords(e.at.Title, words) {
		return 0, true
	}
	return 1, hasWords(e.texts, words)
}

func hasWords(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

func (s Service) isAt(platforms []string) bool {
	return slices.ContainsFunc(s.Placements(), func(h Placement) bool { return slices.Contains(platforms, h.Platform) })
}

func (s Service) hasAll(keywords []string) bool {
	return !slices.ContainsFunc(keywords, func(want string) bool {
		return !slices.ContainsFunc(s.Keywords, func(keyword string) bool { return strings.EqualFold(keyword, want) })
	})
}

// fold returns a text in lower case and without accents.
func fold(text string) string {
	unaccented, _, err := transform.String(transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC),
		text)
	if err != nil {
		unaccented = text
	}
	return strings.ToLower(unaccented)
}

// counts counts platforms or keywords, whose case does not matter, under the first spelling of each.
type counts map[string]*Count

func (c counts) add(keywords ...string) {
	for _, k := range keywords {
		folded := strings.ToLower(k)
		if c[folded] == nil {
			c[folded] = &Count{Name: k}
		}
		c[folded].Services++
	}
}

func (c counts) sorted() (all []Count) {
	for _, k := range c {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b Count) int { // the most frequent first
		return cmp.Or(cmp.Compare(b.Services, a.Services), strings.Compare(a.Name, b.Name))
	})
	return all
}
