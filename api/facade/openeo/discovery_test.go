package openeo_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const root = publicURL + "/openeo/cdse/1.2"

// What a platform publishes is passed on with links that lead to the broker.
func TestPublished_LinksLeadToTheBroker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for _, path := range []string{"/collections", "/collections/SENTINEL2_L2A", "/collections/SENTINEL2_L2A/queryables",
		"/processes", "/file_formats", "/udf_runtimes", "//collections/"} {
		got := w.ask("GET", "/openeo/cdse/1.2"+path, "")
		if object(t, got, http.StatusOK); strings.Contains(got.Body.String(), w.urls["cdse"]) {
			t.Errorf("%s leads to the platform: %s", path, got.Body)
		}
	}
	if kind := w.ask("GET", "/openeo/cdse/1.2/collections/SENTINEL2_L2A/queryables",
		"").Header().Get("Content-Type"); kind != "application/schema+json" {
		t.Errorf("queryables are %s", kind)
	}
	collection := w.ask("GET", "/openeo/cdse/1.2/collections/SENTINEL2_L2A", "").Body.String()
	for _, want := range []string{`"` + root + `/collections/SENTINEL2_L2A"`, `"` + root + `/"`, `"` + root +
		`/collections"`, `"https://example.org/terms"`} {
		if !strings.Contains(collection, want) {
			t.Errorf("no %s in %s", want, collection)
		}
	}
}

// A document of a platform that does not respond is the last known one, and says so.
func TestPublished_OldWhileThePlatformIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	before := w.get("/openeo/cdse/1.2/collections")
	if before["eodispatch:stale_since"] != nil {
		t.Error("a new document is marked as old")
	}
	w.down["cdse"].Close()
	w.now = w.now.Add(time.Hour)
	got := w.ask("GET", "/openeo/cdse/1.2/collections", "")
	after := object(t, got, http.StatusOK)
	if after["eodispatch:stale_since"] == nil || got.Header().Get("Warning") == "" ||
		len(after["collections"].([]any)) != len(before["collections"].([]any)) {
		t.Errorf("headers %v, body %s", got.Header(), got.Body)
	}
	refusedWith(t, w.ask("GET", "/openeo/cdse/1.2/processes", ""), http.StatusServiceUnavailable,
		"InfrastructureMaintenance")
}

func TestPublished_WhatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	refusedWith(t, w.ask("GET", "/openeo/cdse/1.2/collections/NONE", ""), http.StatusNotFound, "CollectionNotFound")
	refusedWith(t, w.ask("GET", "/openeo/other/1.2/collections", ""), http.StatusNotFound, "NotFound")
	refusedWith(t, w.ask("GET", "/openeo/cdse/1.1/collections", ""), http.StatusNotFound, "NotFound")
	refusedWith(t, w.ask("GET", "/openeo/cdse/1.2/nothing", ""), http.StatusNotFound, "NotFound")
	refusedWith(t, w.ask("GET", "/openeo/cdse/1.2/collections/%2e%2e/..", ""), http.StatusNotFound, "NotFound")
	for _, view := range []string{"/openeo/cdse/1.2", "/openeo/1.2"} {
		for path, code := range map[string]string{"/collections/..%2f..%2fetc": "CollectionNotFound",
			"/collections/..%2f..%2fetc/queryables": "CollectionNotFound", "/processes/..%2f/x": "NotFound"} {
			refusedWith(t, w.ask("GET", view+path, ""), http.StatusNotFound, code)
		}
	}
	got := w.ask("POST", "/openeo/cdse/1.2/collections", "{}")
	if refusedWith(t, got, http.StatusMethodNotAllowed, "FeatureUnsupported"); got.Header().Get(
		"Allow") != "GET, OPTIONS" {
		t.Errorf("allowed is %q", got.Header().Get("Allow"))
	}
	for _, path := range []string{"/services", "/files/anna", "/credentials/basic"} {
		refusedWith(t, w.ask("GET", "/openeo/cdse/1.2"+path, ""), http.StatusNotImplemented, "FeatureUnsupported")
	}
}

// Everything that capabilities list is served, and everything that is served is listed.
func TestCapabilities_ListWhatIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for _, path := range []string{"", "/", "//"} {
		if got := w.get("/openeo/cdse/1.2" + path); got["api_version"] != "1.2.0" || got["id"] != "cdse" ||
			got["production"] != true {
			t.Fatalf("%q: %v", path, got)
		}
	}
	listed := w.get("/openeo/cdse/1.2")["endpoints"].([]any)
	if len(listed) < 10 {
		t.Fatalf("%d endpoints", len(listed))
	}
	placeholder := regexp.MustCompile(`\{[^}]*\}`)
	for _, one := range listed {
		e := one.(map[string]any)
		path := placeholder.ReplaceAllString(e["path"].(string), "x")
		got := w.ask("OPTIONS", "/openeo/cdse/1.2"+path, "")
		allowed := strings.Split(got.Header().Get("Access-Control-Allow-Methods"), ", ")
		if got.Code != http.StatusNoContent || got.Header().Get("Content-Type") == "" {
			t.Errorf("OPTIONS %s: %d %v", path, got.Code, got.Header())
		}
		for _, method := range e["methods"].([]any) {
			if !slices.Contains(allowed, method.(string)) {
				t.Errorf("%v %s is listed and not served: %v", method, path, allowed)
			}
		}
		if len(allowed) != len(e["methods"].([]any))+1 {
			t.Errorf("%s: %v is served, listed is %v", path, allowed, e["methods"])
		}
	}
}

// A page reads why a request is refused only if its preflight succeeds, also where nothing is offered.
func TestPreflight_WhereNothingIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for _, path := range []string{"/openeo/1.2/services", "/openeo/cdse/1.2/files/x", "/openeo/1.2/nothing",
		"/openeo/nobody/1.2/jobs"} {
		got := w.ask("OPTIONS", path, "", "Origin", "https://editor.example.org", "Access-Control-Request-Method",
			"POST")
		if h := got.Header(); got.Code != http.StatusNoContent ||
			!strings.Contains(h.Get("Access-Control-Allow-Methods"),
				"POST") || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: %d %v", path, got.Code, h)
		}
	}
}

// What a platform lacks is not listed.
func TestCapabilities_OfAPlatformWithoutValidation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, func(_ string, s *simulator.OpenEO) {
		s.Faults.Set(simulator.Fault{Route: "GET /",
			Body: `{"api_version":"1.2.0","title":"Small","endpoints":[{"path":"/jobs","methods":["GET","POST"]},{"path":"/collections/","methods":["GET"]}]}`})
	})
	for _, one := range w.get("/openeo/cdse/1.2")["endpoints"].([]any) {
		if path := one.(map[string]any)["path"]; path == "/validation" || path == "/udf_runtimes" {
			t.Errorf("%v is listed", path)
		}
	}
}

// Where no version is named all are listed, and below a version that one: the client's URL chooses.
func TestWellKnown_ListsTheVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	both := publicURL + "/openeo/1.2 1.2.0 " + publicURL + "/openeo/1.3 1.3.0 "
	ofOne := strings.ReplaceAll(both, "/openeo/", "/openeo/cdse/")
	for path, want := range map[string]string{"/.well-known/openeo": both, "/openeo/.well-known/openeo": both,
		"/openeo": both, "/openeo/": both, "/openeo/cdse": ofOne, "//openeo/cdse/": ofOne,
		"/openeo/cdse/.well-known/openeo":      ofOne,
		"/openeo/cdse/1.2/.well-known/openeo":  root + " 1.2.0 ",
		"/openeo/cdse/1.2//.well-known/openeo": root + " 1.2.0 ",
		"/openeo/1.3/.well-known/openeo":       publicURL + "/openeo/1.3 1.3.0 "} {
		listed := ""
		for _, v := range w.get(path)["versions"].([]any) {
			version := v.(map[string]any)
			listed += fmt.Sprint(version["url"], " ", version["api_version"], " ")
			if version["production"] != true {
				t.Errorf("%s: %v", path, version)
			}
		}
		if listed != want {
			t.Errorf("%s: %s", path, listed)
		}
	}
	if got := w.ask("POST", "/openeo", "{}"); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", got.Code, got.Body)
	}
}

// Version 1.3 says what it adds: classes of extensions, where there is an editor, and the platforms by their views.
func TestCapabilities_OfVersion13(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"east", "west"}, nil)
	c := w.get("/openeo/1.3")
	for _, class := range []string{"1.3.0", "extensions/federation/0.2.0", "extensions/processing-parameters/0.1.0"} {
		if !slices.Contains(c["conformsTo"].([]any), any("https://api.openeo.org/"+class)) {
			t.Errorf("no class %s: %v", class, c["conformsTo"])
		}
	}
	west := c["federation"].(map[string]any)["west"].(map[string]any)
	if west["url"] != publicURL+"/openeo/west/1.3" || west["last_status_check"] == nil {
		t.Errorf("%v", west)
	}
	if linkIn(t, c, "web-editor") != "https://editor.example.org" ||
		linkIn(t, c, "version-history") != publicURL+"/openeo/.well-known/openeo" {
		t.Errorf("%v", c["links"])
	}
	if c := w.get("/openeo/west/1.3"); c["api_version"] != "1.3.0" || slices.Contains(c["conformsTo"].([]any),
		any("https://api.openeo.org/extensions/federation/0.2.0")) {
		t.Errorf("%v", c)
	}
	if text := w.ask("GET", "/openeo/1.3/processing_parameters", "").Body.String(); strings.Count(text,
		`"name":"eodispatch:platform"`) != 2 {
		t.Errorf("batch jobs and synchronous runs have the option of a platform: %s", text)
	}
}

// A list that a client limits comes in parts, each resource once; what is no limit is refused.
func TestLists_InParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, func(_ string, s *simulator.OpenEO) {
		s.Collections = []string{"A", "B", "C", "D", "E"}
	})
	for _, view := range []string{"/openeo/cdse/1.2", "/openeo/1.2"} {
		for _, member := range []string{"collections", "processes"} {
			list := view + "/" + member
			whole := ids(t, w.get(list), member)
			for _, limit := range []int{1, 2, len(whole), 1000} {
				var all []string
				for next := fmt.Sprintf("%s?limit=%d", list, limit); next != ""; {
					page := w.get(next)
					part := ids(t, page, member)
					if all = append(all, part...); len(part) > limit || len(part) == 0 {
						t.Fatalf("%s has %d", next, len(part))
					}
					if next = ""; len(all) < len(whole) {
						next = strings.TrimPrefix(linkIn(t, page, "next"), publicURL)
					} else if strings.Contains(fmt.Sprint(page["links"]), "rel:next") {
						t.Errorf("a link after the last part: %v", page["links"])
					}
				}
				if !slices.Equal(all, whole) {
					t.Errorf("%s with limit %d: %v, want %v", list, limit, all, whole)
				}
			}
			if all := ids(t, w.get(list+"?limit="), member); !slices.Equal(all, whole) {
				t.Errorf("%s with an empty limit: %v, want %v", list, all, whole)
			}
			for _, bad := range []string{"limit=0", "limit=-1", "limit=abc", "limit=1&eodispatch:from=-1",
				"limit=1&eodispatch:from=x"} {
				refusedWith(t, w.ask("GET", list+"?"+bad, ""), http.StatusBadRequest, "ProcessParameterInvalid")
			}
		}
	}
}

func ids(t *testing.T, list map[string]any, member string) (all []string) {
	t.Helper()
	for _, one := range list[member].([]any) {
		all = append(all, one.(map[string]any)["id"].(string))
	}
	return all
}

// A platform that does not answer costs its reader seconds, not the time that a request to a platform may take.
func TestPublished_OfAFrozenPlatform(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	frozen := make(chan struct{})
	t.Cleanup(func() { close(frozen) })
	w.front = func(http.ResponseWriter, *http.Request) bool { <-frozen; return true }
	got := w.ask("GET", "/openeo/cdse/1.2/collections/SENTINEL2_L2A", "")
	if refusedWith(t, got, http.StatusServiceUnavailable, "InfrastructureBusy"); !strings.Contains(got.Body.String(),
		"The platform cdse has not responded within 5 seconds.") {
		t.Errorf("%s", got.Body)
	}
}

// The providers are those that the openEO Python client can use without further arguments.
func TestIdentityProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	p := w.get("/openeo/cdse/1.2/credentials/oidc")["providers"].([]any)[0].(map[string]any)
	client := p["default_clients"].([]any)[0].(map[string]any)
	grants := client["grant_types"].([]any)
	if p["issuer"] != "https://idp.example.org/realms/eo" || client["id"] != "programs" ||
		client["redirect_urls"].([]any)[0] != "https://editor.example.org" ||
		!slices.Contains(grants, any("refresh_token")) ||
		!slices.Contains(grants, any("urn:ietf:params:oauth:grant-type:device_code+pkce")) {
		t.Errorf("%v", p)
	}
	if ok, _ := regexp.MatchString(`^[\d\w]{1,20}$`, p["id"].(string)); !ok {
		t.Errorf("id %v", p["id"])
	}
}

func TestTokens_InBothForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	const me = "/openeo/cdse/1.2/me"
	for header, name := range map[string]string{anna: "anna", bert: "bert",
		"bearer oidc/eodispatch/token-o'neil@example.org": "o~27neil~40example.org"} {
		if got := w.get(me, "Authorization", header); got["user_id"] != name {
			t.Errorf("%s: %v", header, got)
		}
	}
	refusedWith(t, w.ask("GET", me, ""), http.StatusUnauthorized, "AuthenticationRequired")
	for header, code := range map[string]string{"Basic YTpi": "AuthenticationSchemeInvalid",
		"Bearer basic//abc": "AuthenticationSchemeInvalid",
		"Bearer wrong":      "TokenInvalid", "Bearer oidc/eodispatch/wrong": "TokenInvalid",
		"Bearer old": "TokenInvalid"} {
		refusedWith(t, w.ask("GET", me, "", "Authorization", header), http.StatusForbidden, code)
	}
	refusedWith(t, w.ask("GET", "/openeo/cdse/1.2/collections", "", "Authorization", "Bearer wrong"),
		http.StatusForbidden, "TokenInvalid")
}

func TestValidation_SaysWhatThePlatformSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	const good = `{"process_graph":{"a":{"process_id":"add","arguments":{"x":1,"y":2},"result":true}}}`
	if got := object(t, w.ask("POST", "/openeo/cdse/1.2/validation", good, "Authorization", anna),
		200); len(got["errors"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	if got := object(t, w.ask("POST", "/openeo/cdse/1.2/validation", `{}`, "Authorization", anna),
		200); len(got["errors"].([]any)) == 0 {
		t.Errorf("%v", got)
	}
	const cycle = `{"process_graph":{"a":{"process_id":"add","arguments":{"x":{"from_node":"b"},"y":2},"result":true},"b":{"process_id":"add","arguments":{"x":{"from_node":"a"},"y":2}}}}`
	for _, view := range []string{"/openeo/cdse/1.2", "/openeo/1.2"} {
		got := object(t, w.ask("POST", view+"/validation", cycle, "Authorization", anna), 200)
		if faults := got["errors"].([]any); len(faults) != 1 ||
			faults[0].(map[string]any)["code"] != "ProcessGraphInvalid" ||
			!strings.Contains(fmt.Sprint(faults), "cycle") {
			t.Errorf("a cycle: %v", got)
		}
	}
	const ofAParameter = `{"process_graph":{"a":{"process_id":"add","arguments":{"x":{"from_parameter":"x"},"y":2},"result":true}}}`
	if got := object(t, w.ask("POST", "/openeo/cdse/1.2/validation", ofAParameter, "Authorization", anna),
		200); len(got["errors"].([]any)) != 0 {
		t.Errorf("a process with a parameter: %v", got)
	}
	refusedWith(t, w.ask("POST", "/openeo/cdse/1.2/validation", "", "Authorization", anna), 400, "ContentTypeInvalid")
	refusedWith(t, w.ask("POST", "/openeo/cdse/1.2/validation", "{", "Authorization", anna), 400, "ContentTypeInvalid")
	refusedWith(t, w.ask("POST", "/openeo/cdse/1.2/validation", "[1]", "Authorization", anna), 400,
		"ContentTypeInvalid")
}

// A document that the platform shows to users only is read as the user, and kept apart for each.
func TestPublished_AsTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.backends[0].Access = dispatch.AccessUser
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/openeo/1.2/collections" {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") == "" {
			rw.WriteHeader(401)
			_, _ = io.WriteString(rw, `{"code":"AuthenticationRequired","message":"sign in"}`)
			return true
		}
		fmt.Fprintf(rw, `{"collections":[],"links":[],"whose":%q}`, r.Header.Get("Authorization"))
		return true
	}
	const collections = "/openeo/cdse/1.2/collections"
	refusedWith(t, w.ask("GET", collections, ""), http.StatusUnauthorized, "AuthenticationRequired")
	for header, name := range map[string]string{anna: "anna", bert: "bert"} {
		if whose := w.get(collections, "Authorization",
			header)["whose"]; whose != "Bearer oidc/sim/of-cdse/https://idp.example.org "+name {
			t.Errorf("%s got what %v sees", name, whose)
		}
	}
	refusedWith(t, w.ask("GET", collections, ""), http.StatusUnauthorized, "AuthenticationRequired")
}

// The link of a platform that needs a sign-in is in the error.
func TestPublished_SaysWhereToSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.backends[0].Access = dispatch.AccessUser
	w.tokens.err = &dispatch.Error{Kind: dispatch.SignInRequired, Op: "test", Text: "Link your account.",
		Link: "https://broker.example.org/link/cdse"}
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/openeo/1.2/collections" {
			return false
		}
		rw.WriteHeader(401)
		return true
	}
	got := w.ask("GET", "/openeo/cdse/1.2/collections", "", "Authorization", anna)
	if refusedWith(t, got, http.StatusForbidden, "PermissionsInsufficient"); !strings.Contains(got.Body.String(),
		"https://broker.example.org/link/cdse") {
		t.Errorf("%s", got.Body)
	}
}
