package api

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// nowhere is an http.ResponseWriter that discards the response.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

func benchmark(b *testing.B, method, target, body string) {
	w := newWorld()
	c := w.config()
	c.Log = slog.New(slog.NewJSONHandler(discard{}, nil))
	h := New(c)
	if a := ask(h, "POST", "/unit_jobs", goodBody); a.Code != 201 {
		b.Fatal(a.Body)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer token-anna")
		h.ServeHTTP(&nowhere{http.Header{}}, r)
		w.signed = w.signed[:0]
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkGetJobOverLoopback measures GET /unit_jobs/{id} over loopback, with a connection for each worker.
func BenchmarkGetJobOverLoopback(b *testing.B) {
	w := newWorld()
	c := w.config()
	c.OnRequest = nil
	c.Log = slog.New(slog.NewJSONHandler(discard{}, nil))
	s := httptest.NewServer(New(c))
	defer s.Close()
	if a := ask(New(c), "POST", "/unit_jobs", goodBody); a.Code != 201 {
		b.Fatal(a.Body)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequest("GET", s.URL+"/unit_jobs/1", nil)
			r.Header.Set("Authorization", "Bearer token-anna")
			a, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
			if a.StatusCode != 200 {
				b.Error(a.Status)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

func BenchmarkGetJob(b *testing.B)      { benchmark(b, "GET", "/unit_jobs/1", "") }
func BenchmarkJobNotFound(b *testing.B) { benchmark(b, "GET", "/unit_jobs/99999999", "") }
func BenchmarkHealth(b *testing.B)      { benchmark(b, "GET", "/health", "") }
func BenchmarkRefused(b *testing.B)     { benchmark(b, "POST", "/unit_jobs", "{}") }

func BenchmarkParse(b *testing.B) {
	a := New(newWorld().config()).(*api)
	for name, body := range map[string]string{
		"small": goodBody,
		"1MB":   strings.Replace(goodBody, `"n":`, `"c":[`+strings.Repeat("[5.123456,50.654321],", 50_000)+`0],"n":`, 1),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, faults := a.parse(b.Context(), []byte(body)); len(faults) > 0 {
					b.Fatal(faults)
				}
			}
		})
	}
}
