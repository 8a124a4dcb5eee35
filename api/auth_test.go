package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What stands in a URL ends in logs (RFC 9700, section 4.3.2), and two headers leave open which is meant.
func TestATokenIsTakenFromTheOneHeader(t *testing.T) {
	h := New(newWorld().config())
	request := func(target, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
		r.Header["Authorization"] = headers
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const token = "token-anna"
	for name, a := range map[string]*httptest.ResponseRecorder{
		"in the query": request("/unit_jobs/1/cancel?access_token="+token+"&token="+token, ""),
		"in the form":  request("/unit_jobs/1/cancel", "access_token="+token),
		"two headers":  request("/unit_jobs/1/cancel", "", "Bearer "+token, "Bearer "+token),
	} {
		if f := failed(t, a, 401, "AUTHENTICATION_FAILED"); strings.Contains(f.Message, token) {
			t.Errorf("%s: the answer repeats the token", name)
		}
	}
	for _, scheme := range []string{"Bearer ", "bearer "} { // RFC 9110, section 11.1
		failed(t, request("/unit_jobs/1/cancel", "", scheme+token), 404, "JOB_NOT_FOUND")
	}
}
