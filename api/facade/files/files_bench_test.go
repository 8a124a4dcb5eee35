package files_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// opener opens one file at a server, as platforms do.
type opener struct {
	client *upstream.Client
	url    string
}

func (o opener) OpenFile(ctx context.Context, _ dispatch.UserID, _ dispatch.JobID, _ string,
	r dispatch.FileRequest) (*dispatch.File, error) {
	a, err := o.client.Relay(ctx, upstream.Relay{Op: "test", Head: r.Head, URL: o.url, Header: r.Header,
		Origin: o.url})
	if err != nil {
		return nil, err
	}
	return &dispatch.File{Status: a.Status, Header: a.Header, Body: a.Stream}, nil
}

// BenchmarkPerformanceOfFiles reads a file through the server of the API, and through a reverse proxy that does nothing
// else, in turns.
func BenchmarkPerformanceOfFiles(b *testing.B) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // 64 MiB
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.tif", time.Time{}, bytes.NewReader(content))
	}))
	defer origin.Close()
	at, _ := url.Parse(origin.URL)
	passed := &files.Facade{Secret: "secret", Broker: opener{upstream.New(upstream.Config{Development: true,
		Trust: []string{origin.URL}}), origin.URL + "/a.tif"},
		Backends: []*dispatch.Backend{{Name: "p", ProxyAssets: true}}}
	h := api.New(api.Config{Log: slog.New(slog.DiscardHandler), Facades: []facade.Facade{passed}})
	defer h.Close()
	relay, proxy := httptest.NewServer(h), httptest.NewServer(httputil.NewSingleHostReverseProxy(at))
	defer relay.Close()
	defer proxy.Close()
	link := linkTo(b, passed, relay.URL)
	for _, c := range []struct {
		name    string
		clients int
		ranges  string
		times   int
	}{
		{"a file of 64 MiB", 1, "", 4}, {"the same by 16 clients", 16, "", 1},
		{"ranges of 1 MiB by 16 clients", 16, "bytes=1048576-2097151", 20},
		{"ranges of 16 KiB by 16 clients", 16, "bytes=16384-32767", 100},
	} {
		var ratios []float64
		rates := [2][]float64{}
		for range 7 {
			var rate [2]float64
			for i, u := range []string{link, proxy.URL + "/a.tif"} {
				rate[i] = readAll(b, u, c.clients, c.ranges, c.times)
				rates[i] = append(rates[i], rate[i])
			}
			ratios = append(ratios, rate[0]/rate[1])
		}
		slices.Sort(ratios)
		slices.Sort(rates[0])
		slices.Sort(rates[1])
		fmt.Fprintf(os.Stdout, "%s: %.0f MB/s, a reverse proxy %.0f MB/s, ratio %.2f (medians of 7)\n", c.name, rates[0][3],
			rates[1][3], ratios[3])
	}
}

// linkTo returns a link of the façade to a file.
func linkTo(b *testing.B, f *files.Facade, server string) string {
	b.Helper()
	c := stac.Object{"assets": []byte(`{"a":{"href":"https://x.example/a.tif"}}`)}
	if err := f.Pass(c, server, "ann", "p/ann", 1, time.Now().Add(time.Hour)); err != nil {
		b.Fatal(err)
	}
	_, link, _ := strings.Cut(string(c["assets"]), `"href":"`)
	link, _, _ = strings.Cut(link, `"`)
	return link
}

// readAll returns with how many MB/s clients read a URL, each so many times.
func readAll(b *testing.B, u string, clients int, ranges string, times int) float64 {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	var mu sync.Mutex
	total, begun := int64(0), time.Now()
	for range clients {
		all.Go(func() {
			for range times {
				r, _ := http.NewRequest(http.MethodGet, u, nil)
				if ranges != "" {
					r.Header.Set("Range", ranges)
				}
				resp, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				n, err := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode > 299 {
					b.Error(resp.Status, err)
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return float64(total) / 1e6 / time.Since(begun).Seconds()
}
