package api

import (
	"fmt"
	"strings"
	"testing"
)

// TestHugeNumbersInRequests: exact arithmetic with them costs seconds, so they are refused where JSON is read.
func TestHugeNumbersInRequests(t *testing.T) {
	h := New(newWorld().config())
	for _, number := range []string{"1e999999", "-1E-401", strings.Repeat("9", 401)} {
		body := fmt.Sprintf(`{"label":"openeo","service":{"endpoint":"https://h.example","application":"a"},"title":"t","format":"json","parameters":{"x":[%s]}}`,
			strings.TrimSuffix(strings.Repeat(number+",", 200), ","))
		for _, path := range []string{"/unit_jobs", "/sync_jobs", "/params"} {
			got := ask(h, "POST", path, body)
			if got.Code != 422 || !strings.Contains(got.Body.String(), "(bound number_") {
				t.Errorf("%s %.10s: %d %.300s", path, number, got.Code, got.Body)
			}
		}
	}
}
