package program

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// foundItems is a page of Items as a STAC client sees it.
type foundItems struct {
	Features []struct {
		ID, Collection string
		Bbox           []float64
		Properties     map[string]any
		Assets         map[string]struct{ Href string }
	}
	Links []struct {
		Rel, Href, Method string
		Body              json.RawMessage
	}
}

// TestSTAC_ResultsOfUsers searches what a task of Alice made at a platform that needs her token, and reads its files
// through the broker, on both databases. Bob finds nothing, and a link that is not the broker's leads nowhere. What was
// read once is not read again, and links that have ended are renewed at the platform.
func TestSTAC_ResultsOfUsers(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			w := startWorld(t)
			w.OpenEO.SetLife(simulator.Life{Run: 100 * time.Millisecond})
			w.IdP.Link("bob", "bob-p")
			dsn := database(t)
			environ := acting(t, w, executable.FreeAddress(t), dsn, named("k"))
			for i := range environ {
				environ[i] = strings.Replace(environ[i], `"access": "user",`, `"access": "user", "assets": "proxy",`, 1)
			}
			p := Start(t, environ...)
			t.Cleanup(func() { p.Stop(t) })
			u := &twoUsers{T: t, w: w, p: p, alice: SignIn(t, w, p.Address), bob: As(w, p.Address, "bob", nil)}
			agree(t, u.alice, "alice")
			task := u.tiles(6)
			u.searches(task)
			u.forges(dsn)
			u.files(task)
		})
	}
}

// tiles runs a task with a tile for each degree from 5 degrees east, and waits until its results were read.
func (u *twoUsers) tiles(n int) Job {
	u.Helper()
	r := OpenEO(u.w)
	r.Parameters = json.RawMessage(`{"temporal_extent": ` + Span + `}`)
	d := dispatch.Dimension{Name: "spatial_extent"}
	for i := range n {
		d.Values = append(d.Values, fmt.Appendf(nil, `{"west": %d, "south": 51, "east": %d.5, "north": 51.5}`, 5+i, 5+i))
	}
	task, err := u.alice.Upscale(u.Context(), r, d)
	u.must(err)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(3 * time.Minute); ; {
		found := len(u.find("GET", "/stac/search?limit=100", "").Features)
		if found == n {
			return task
		}
		select {
		case <-again.C:
		case <-deadline:
			u.Fatalf("%d of %d results were read:\n%s", found, n, u.p.Log)
		}
	}
}

// find returns a page as Alice sees it.
func (u *twoUsers) find(method, path, body string) (found foundItems) {
	u.Helper()
	got := u.ask(u.alice, method, strings.TrimPrefix(path, u.p.Address), body)
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/geo+json" ||
		json.Unmarshal([]byte(got.Body), &found) != nil {
		u.Fatalf("%s %s: %d %s", method, path, got.Status, got.Body)
	}
	return found
}

func (u *twoUsers) searches(task Job) {
	u.Helper()
	collection := fmt.Sprintf("task-%d", task.ID)
	for query, want := range map[string]int{
		"bbox=5.1,51.1,5.2,51.2": 1, "bbox=5,50,7.2,52": 3, "bbox=170,50,8,52": 4, "bbox=-5,50,0,52": 0,
		"datetime=2024-01-01T00:00:00Z/..": 6, "datetime=2023-01-01T00:00:00Z/2023-02-01T00:00:00Z": 0,
		"datetime=../2023-01-01T00:00:00Z": 0, "collections=" + collection: 6, "collections=task-987654": 0,
		"collections=results": 6, fmt.Sprintf("task=%d", task.ID): 6, "task=987654": 0, "status=finished": 6,
		"status=failed": 0, "label=project:x": 0, "ids=987654": 0, "ids=x": 0,
		`intersects={"type":"Point","coordinates":[5.2,51.2]}`:                                    1,
		`intersects={"type":"Polygon","coordinates":[[[5,51.6],[9,51.6],[9,54],[5,51.6]]]}`:       0,
		`intersects={"type":"LineString","coordinates":[[5.4,51.4],[6.1,51.1]]}`:                  2,
		`query={"eodispatch:task":{"eq":` + fmt.Sprint(task.ID) + `},"label:project":{"eq":"x"}}`: 0,
	} {
		if got := u.find("GET", "/stac/search?"+strings.NewReplacer(`"`, "%22", " ", "%20", "{", "%7B", "}", "%7D").
			Replace(query), ""); len(got.Features) != want {
			u.Errorf("%s: %d Items, want %d", query, len(got.Features), want)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		at, body, ids := "/stac/search?limit=4&bbox=5,50,12,52", "", []string{}
		if method == "POST" {
			at, body = "/stac/search", `{"limit":4,"bbox":[5,50,12,52],"collections":["`+collection+`"]}`
		}
		for at != "" {
			page := u.find(method, at, body)
			at = ""
			for _, f := range page.Features {
				ids = append(ids, f.ID)
			}
			for _, l := range page.Links {
				if l.Rel == "next" {
					at, body = l.Href, string(l.Body)
				}
			}
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != 6 {
			u.Errorf("%s: pages of %v", method, ids)
		}
	}
	for _, bad := range []string{"bbox=1,2,3", "bbox=1,x,3,4", "bbox=0,9,1,8", "datetime=x", "limit=0", "token=x",
		"query=x", "query=%7B%22a%22%3A%7B%22eq%22%3A1%7D%7D", "intersects=%7B%7D", "datetime=../.."} {
		if got := u.ask(u.alice, "GET", "/stac/search?"+bad, ""); got.Status != http.StatusBadRequest {
			u.Errorf("%s: %d %s", bad, got.Status, got.Body)
		}
	}
	var listed struct {
		Collections []struct{ ID string }
	}
	u.must(u.alice.Call(u.Context(), "GET", "/stac/collections", nil, &listed))
	if len(listed.Collections) != 3 || listed.Collections[2].ID != collection {
		u.Errorf("collections: %+v", listed)
	}
	item := u.find("GET", "/stac/collections/"+collection+"/items?limit=1", "").Features[0]
	for _, path := range []string{"/stac/collections/" + collection, "/stac/collections/" + collection + "/items",
		"/stac/collections/" + collection + "/items/" + item.ID, "/stac/collections/results/items/" + item.ID} {
		theirs := u.ask(u.bob, "GET", path, "")
		if mine := u.ask(u.alice, "GET", path, ""); mine.Status != http.StatusOK ||
			theirs.Status != http.StatusNotFound {
			u.Errorf("%s: %d, and %d for another", path, mine.Status, theirs.Status)
		}
		if none := u.ask(Client{Broker: u.p.Address}, "GET", path, ""); none.Status != http.StatusUnauthorized {
			u.Errorf("%s without a token: %d", path, none.Status)
		}
	}
	if got := u.ask(u.bob, "GET", "/stac/search?collections="+collection, ""); !strings.Contains(got.Body,
		`"features":[]`) {
		u.Errorf("another finds %s", got.Body)
	}
}

// forges makes links to a file by all that readers of the database know.
func (u *twoUsers) forges(dsn string) {
	u.Helper()
	driver, name := "pgx", dsn
	if file, lite := strings.CutPrefix(dsn, "sqlite:"); lite {
		driver, name = "sqlite", file
	}
	db, err := sql.Open(driver, name)
	u.must(err)
	defer db.Close()
	item := u.find("GET", "/stac/search?limit=1", "").Features[0]
	owner, tried := allRows(u.T, db, "SELECT owner FROM jobs")[0][0], 0
	for _, row := range allRows(u.T, db, "SELECT value FROM settings") {
		for asset := range item.Assets {
			sealed, err := files.Seal(dispatch.Secret(fmt.Sprint(row[0])), "file of results", map[string]any{"u": owner,
				"j": json.Number(item.ID), "a": asset, "e": time.Now().Add(time.Hour).Unix()})
			u.must(err)
			got := u.ask(Client{Broker: u.p.Address}, "GET", "/files/"+sealed+"/x", "")
			if tried++; got.Status != http.StatusNotFound {
				u.Errorf("a link that a reader of the database made: %d", got.Status)
			}
		}
	}
	if tried < 2 {
		u.Errorf("%d links were tried", tried)
	}
}

// files reads a file by the links of each interface.
func (u *twoUsers) files(task Job) {
	u.Helper()
	item := u.find("GET", "/stac/search?limit=1", "").Features[0]
	links := map[string]bool{}
	for _, path := range []string{"/stac/search?limit=1", "/unit_jobs/" + item.ID + "/results",
		fmt.Sprintf("/upscale_tasks/%d/results/items/%s", task.ID, item.ID)} {
		text := u.ask(u.alice, "GET", path, "").Body
		at := strings.Index(text, u.p.Address+"/files/")
		if at < 0 || strings.Contains(text, u.w.OpenEOURL+"/signed") {
			u.Fatalf("%s links to no file of the broker: %s", path, text)
		}
		links[strings.TrimPrefix(text[at:at+strings.IndexByte(text[at:], '"')], u.p.Address)] = true
	}
	nobody := Client{Broker: u.p.Address}
	for link := range links {
		whole := u.ask(nobody, "GET", link, "")
		part := u.ask(nobody, "GET", link, "", "Range", "bytes=2-5", "Origin", "https://viewer.example")
		head := u.ask(nobody, "HEAD", link, "")
		if whole.Status != http.StatusOK || part.Status != http.StatusPartialContent || part.Body != whole.Body[2:6] ||
			head.Header.Get("Content-Length") != fmt.Sprint(len(whole.Body)) ||
			part.Header.Get("Access-Control-Allow-Origin") != "*" ||
			whole.Header.Get("Content-Security-Policy") != "sandbox" {
			u.Errorf("%s: %d, %d %v %q, HEAD %v", link, whole.Status, part.Status, part.Header, part.Body, head.Header)
		}
		if forged := u.ask(nobody, "GET", strings.Replace(link, "/files/", "/files/A", 1), ""); forged.Status !=
			http.StatusNotFound {
			u.Errorf("a forged link: %d", forged.Status)
		}
	}
	if got := u.ask(u.alice, "DELETE", "/unit_jobs/"+item.ID, ""); got.Status != http.StatusOK {
		u.Fatalf("DELETE: %d %s", got.Status, got.Body)
	}
	for link := range links {
		if gone := u.ask(nobody, "GET", link, ""); gone.Status != http.StatusNotFound {
			u.Errorf("after the job was deleted: %d", gone.Status)
		}
	}
	if got := u.find("GET", "/stac/search?ids="+item.ID, ""); len(got.Features) != 0 {
		u.Errorf("the Item of a deleted job: %+v", got)
	}
}
