package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// twoUsers is the real program with Alice, who has given permission and has a running job and a running task, and Bob,
// who has nothing.
type twoUsers struct {
	*testing.T
	w          *simulator.World
	p          *executable.Program
	alice, bob Client
	job, task  Job
	grant      string
}

// shown is everything that a client sees of a response except its date.
type shown struct {
	Status int
	Header http.Header
	Body   string
}

func withTwoUsers(t *testing.T) *twoUsers {
	t.Helper()
	w := startWorld(t)
	w.OpenEO.SetLife(simulator.Life{Run: dispatch.Day})
	w.IdP.Link("bob", "bob-p")
	p := Start(t, acting(t, w, executable.FreeAddress(t), databases["SQLite"](t), named("k"))...)
	u := &twoUsers{T: t, w: w, p: p, alice: SignIn(t, w, p.Address), bob: As(w, p.Address, "bob", nil)}
	t.Cleanup(func() { p.Stop(t) })
	return u
}

// work gives Alice everything that a user can have.
func (u *twoUsers) work() {
	u.Helper()
	agree(u.T, u.alice, "alice")
	var grants []struct{ ID string }
	u.must(u.alice.Call(u.Context(), http.MethodGet, "/grants", nil, &grants))
	u.grant = grants[0].ID
	var err error
	u.job, err = u.alice.Submit(u.Context(), OpenEO(u.w))
	u.must(err)
	tiles := OpenEO(u.w)
	tiles.Parameters = json.RawMessage(`{"spatial_extent": ` + Area + `}`)
	u.task, err = u.alice.Upscale(u.Context(), tiles, dispatch.Dimension{Name: "temporal_extent",
		Values: []json.RawMessage{json.RawMessage(Span)}})
	u.must(err)
	u.task, err = u.alice.Task(u.Context(), u.task.ID)
	u.must(err)
}

func (u *twoUsers) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

// ask sends a request; headers are name, value, ….
func (u *twoUsers) ask(c Client, method, path, body string, headers ...string) shown {
	u.Helper()
	request, err := http.NewRequestWithContext(u.Context(), method, c.Broker+path, strings.NewReader(body))
	u.must(err)
	request.Header.Set("X-Correlation-ID", "same")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	u.must(err)
	response.Header.Del("Date")
	return shown{response.StatusCode, response.Header, bodyOf(u.T, response)}
}

// operations returns the operations in the program's OpenAPI document: methods by path.
func (u *twoUsers) operations() map[string][]string {
	u.Helper()
	var document struct {
		Paths map[string]map[string]any
	}
	u.must(u.alice.Call(u.Context(), http.MethodGet, "/openapi.json", nil, &document))
	all := map[string][]string{}
	for path, operations := range document.Paths {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if operations[method] != nil {
				all[path] = append(all[path], strings.ToUpper(method))
			}
		}
	}
	return all
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// filled puts ids into a path.
func filled(path string, job, task int64, grant string) string {
	return placeholder.ReplaceAllStringFunc(path, func(name string) string {
		switch name {
		case "{task_id}":
			return fmt.Sprint(task)
		case "{grant_id}":
			return grant
		}
		return fmt.Sprint(job)
	})
}

// TestForeignJobs_LookLikeMissingOnes asks, as Bob, in each way that the interface's own document knows for what is
// Alice's, and for what nobody has: status, headers and body are the same to the byte, and nothing happens to it.
func TestForeignJobs_LookLikeMissingOnes(t *testing.T) {
	t.Parallel()
	u := withTwoUsers(t)
	u.work()
	const nobodys = 987_654
	walked := 0
	for path, methods := range u.operations() {
		if !strings.Contains(path, "{") {
			continue
		}
		for _, method := range methods {
			body := ""
			if method == http.MethodPatch {
				body = `{"note":"mine"}`
			}
			for _, query := range []string{"", "?wait=1&limit=1&status=running"} {
				for _, job := range []int64{u.job.ID, u.task.Jobs[0].ID} {
					theirs := u.ask(u.bob, method, filled(path, job, u.task.ID, u.grant)+query, body)
					none := u.ask(u.bob, method, filled(path, nobodys, nobodys, "nobodys")+query, body)
					if theirs.Status != http.StatusNotFound || !reflect.DeepEqual(theirs, none) {
						t.Errorf("%s %s%s tells of another's:\n%+v\n%+v", method, path, query, theirs, none)
					}
				}
			}
			walked++
		}
	}
	if walked < 10 {
		t.Errorf("only %d operations were asked", walked)
	}
	var refused []shown
	for _, id := range []int64{u.task.ID, nobodys} {
		address := fmt.Sprintf("ws%s/ws/upscale_tasks/%d?token=%s", strings.TrimPrefix(u.p.Address, "http"), id,
			u.bob.Token)
		s, r, err := websocket.Dial(t.Context(), address,
			&websocket.DialOptions{HTTPHeader: http.Header{"X-Correlation-Id": {"same"}}})
		if err == nil {
			s.CloseNow()
			t.Fatalf("a stream of task %d", id)
		}
		r.Header.Del("Date")
		refused = append(refused, shown{r.StatusCode, r.Header, bodyOf(t, r)})
	}
	if refused[0].Status != http.StatusNotFound || !reflect.DeepEqual(refused[0], refused[1]) {
		t.Errorf("streams: %+v", refused)
	}
	for _, id := range []int64{u.job.ID, u.task.Jobs[0].ID} {
		if is, err := u.alice.Job(t.Context(), id); err != nil || is.Ended() {
			t.Errorf("job %d is %+v, %v", id, is, err)
		}
	}
	var grants []any
	if err := u.alice.Call(t.Context(), http.MethodGet, "/grants", nil, &grants); err != nil || len(grants) != 1 {
		t.Errorf("grants %v, %v", grants, err)
	}
}

// TestForeignJobs_AreInNoList compares Bob's lists before and after Alice has jobs; a cursor of her list is invalid in
// his.
func TestForeignJobs_AreInNoList(t *testing.T) {
	t.Parallel()
	u := withTwoUsers(t)
	lists := []string{"/usage", "/grants"}
	for _, query := range []string{"", "?filter=upscaling", "?filter=processing", "?status=running",
		"?status=submitted&limit=1", "?platform=eo", "?since=2020-01-01T00:00:00Z"} {
		lists = append(lists, "/jobs_status"+query)
	}
	tell := func() (all []shown) {
		for _, path := range lists {
			all = append(all, u.ask(u.bob, http.MethodGet, path, ""))
		}
		return all
	}
	before := tell()
	u.work()
	for i, after := range tell() {
		if after.Status != http.StatusOK || !reflect.DeepEqual(after, before[i]) {
			t.Errorf("%s changed:\n%+v\n%+v", lists[i], before[i], after)
		}
	}
	page := u.ask(u.alice, http.MethodGet, "/jobs_status?limit=1", "")
	next := strings.TrimPrefix(Between(page.Header.Get("Link"), "<", ">"), u.p.Address)
	if hers := u.ask(u.alice, http.MethodGet, next, ""); hers.Status != http.StatusOK {
		t.Fatalf("her own next page %q: %+v", next, hers)
	}
	stolen, madeUp := u.ask(u.bob, http.MethodGet, next, ""), u.ask(u.bob, http.MethodGet,
		"/jobs_status?limit=1&cursor=AAAA", "")
	if stolen.Status != http.StatusUnprocessableEntity || !reflect.DeepEqual(stolen, madeUp) {
		t.Errorf("her cursor:\n%+v\n%+v", stolen, madeUp)
	}
}

// TestForeignJobs_KeysBelongToTheirOwner: the same Idempotency-Key of another user stands for another job.
func TestForeignJobs_KeysBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	u := withTwoUsers(t)
	body, err := json.Marshal(OpenEO(u.w))
	u.must(err)
	post := func(c Client) (made Job) {
		t.Helper()
		a := u.ask(c, http.MethodPost, "/unit_jobs", string(body), "Idempotency-Key", "same")
		if err := json.Unmarshal([]byte(a.Body), &made); err != nil || a.Status != http.StatusCreated {
			t.Fatalf("%+v, %v", a, err)
		}
		return made
	}
	hers, his := post(u.alice), post(u.bob)
	if hers.ID == his.ID || post(u.alice).ID != hers.ID || post(u.bob).ID != his.ID {
		t.Errorf("one key gives job %d to Alice and %d to Bob", hers.ID, his.ID)
	}
}

// TestClients_CannotSetInternalFields: clients cannot set a job's owner, its state, or how the broker signs in at the
// platform.
func TestClients_CannotSetInternalFields(t *testing.T) {
	t.Parallel()
	u := withTwoUsers(t)
	body, err := json.Marshal(OpenEO(u.w))
	u.must(err)
	saying := strings.TrimSuffix(string(body), "}") +
		`, "id": 4711, "owner": "bob", "user": "bob", "user_id": "bob", "account": "ogc/shared",
		"status": "finished", "phase": "ended", "platform": "ogc", "platform_job_id": "made-up", "task_id": 7, "created": "2001-01-01T00:00:00Z",
		"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "sim/a/b", "token_provider": "other", "token_prefix": "basic/", "access": "shared", "exchange": {"alias": "other"}}`
	u.must(json.Unmarshal([]byte(saying), new(any)))
	a := u.ask(u.alice, http.MethodPost,
		"/unit_jobs?user_id=bob&auth_method=CLIENT_CREDENTIALS&token_provider=other&status=finished", saying,
		"X-User", "bob", "X-Forwarded-User", "bob", "X-Auth-Method", "CLIENT_CREDENTIALS")
	var made struct {
		ID            int64
		Status        string
		Platform      string
		PlatformJobID string `json:"platform_job_id"`
		TaskID        *int64 `json:"task_id"`
		Created       string
	}
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("%+v, %v", a, err)
	}
	if made.ID == 4711 || made.Status != "submitted" || made.Platform != "eo" || made.PlatformJobID == "made-up" ||
		made.TaskID != nil || strings.HasPrefix(made.Created, "2001") {
		t.Errorf("made %+v", made)
	}
	if his := u.ask(u.bob, http.MethodGet, "/jobs_status", ""); strings.Contains(his.Body, `"id"`) {
		t.Errorf("Bob has %s", his.Body)
	}
	for user, want := range map[string]int{"alice-p": 1, "bob-p": 0,
		"service-account-" + u.w.Credentials.ServiceID: 0} {
		if n := u.atPlatform(user); n != want {
			t.Errorf("%s has %d jobs at the platform", user, n)
		}
	}
}

// atPlatform counts a user's jobs at the openEO back-end.
func (u *twoUsers) atPlatform(user string) int {
	u.Helper()
	platform := Client{u.w.OpenEOURL + "/openeo/1.2", "oidc/sim/" + u.w.IdP.Mint(simulator.PlatformRealm, user,
		"platform-api", simulator.TokenFaults{})}
	var listed struct{ Jobs []any }
	u.must(platform.Call(u.Context(), http.MethodGet, "/jobs", nil, &listed))
	return len(listed.Jobs)
}

// TestAPI_ServesNothingForOperators: metrics and profiles are not on the public listener, whoever asks.
func TestAPI_ServesNothingForOperators(t *testing.T) {
	t.Parallel()
	u := withTwoUsers(t)
	nothing := u.ask(Client{u.p.Address, ""}, http.MethodGet, "/nothing", "")
	for _, path := range []string{"/metrics", "/debug", "/debug/", "/debug/pprof", "/debug/pprof/", "/debug/pprof/heap",
		"/debug/pprof/cmdline", "/debug/vars", "/debug/requests",
		"/admin", "/admin/", "/config", "/env", "/actuator", "/actuator/env", "/status", "/stats", "/healthz",
		"/readyz", "/livez", "/-/reload", "/shutdown", "/vault", "/audit",
		"/users", "/accounts", "/jobs", "/tokens", "/.git/config", "/.env", "/server-status", "/_oracle", "/_faults",
		"/swagger"} {
		for _, c := range []Client{{u.p.Address, ""}, u.alice} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if a := u.ask(c, method, path, ""); !reflect.DeepEqual(a, nothing) {
					t.Errorf("%s %s: %+v", method, path, a)
				}
			}
		}
	}
	for path := range u.operations() {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if !slices.Contains([]string{"health", "unit_jobs", "sync_jobs", "upscale_tasks", "jobs_status", "params",
			"tiles",
			"grids", "grants", "usage", "platforms", "tickets", "session", "services", "hooks", "estimate"}, first) {
			t.Errorf("%s is new: is it for clients?", path)
		}
	}
}
