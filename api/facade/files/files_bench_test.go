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
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

type ( // whose methods have the same names
	keptItems   = broker.Items
	keptRecords = broker.Records
)

// opener is a platform with one file, and the store of a job there that has finished.
type opener struct {
	dispatch.Platform
	keptItems
	keptRecords

	client *upstream.Client
	url    string
}

func (o opener) OpenFile(ctx context.Context, t dispatch.Token, r dispatch.FileRequest) (*dispatch.File, error) {
	return o.client.Relay(ctx, upstream.Relay{Op: "test", FileRequest: r, Token: t.Secret, Origin: o.url})
}

func (opener) Record(_ context.Context, u dispatch.UserID, id dispatch.JobID) (r dispatch.Record, err error) {
	r.ID, r.Owner, r.Account, r.Status = id, u, dispatch.Account("p/"+u), dispatch.Finished
	return r, nil
}

func (o opener) Items(context.Context, dispatch.UserID, []dispatch.JobID,
	bool) (map[dispatch.JobID]dispatch.Item, error) {
	return map[dispatch.JobID]dispatch.Item{1: {Job: 1, Body: fmt.Appendf(nil, `{"assets":{"a":{"href":%q}}}`, o.url),
		Until: time.Now().Add(time.Hour)}}, nil
}

func (opener) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{Secret: "t"}, nil
}

func (opener) Invalidate(dispatch.Account, dispatch.Token) {}

// BenchmarkPerformanceOfFiles reads a file through the server of the API, and through a reverse proxy that does nothing
// else, in turns.
func BenchmarkPerformanceOfFiles(b *testing.B) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // 64 MiB
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.tif", time.Time{}, bytes.NewReader(content))
	}))
	defer origin.Close()
	at, _ := url.Parse(origin.URL)
	o := opener{url: origin.URL + "/a.tif", client: upstream.New(upstream.Config{Development: true,
		Trust: []string{origin.URL}})}
	backends := []*dispatch.Backend{{Name: "p", ProxyAssets: true, Access: dispatch.AccessUser, Platform: o}}
	passed := &files.Facade{Secret: "secret", Backends: backends, Broker: &broker.Broker{Items: o, Records: o,
		Setup: &dispatch.Setup{Backends: backends, Tokens: o, Log: slog.New(slog.DiscardHandler)}}}
	h := api.New(api.Config{Log: slog.New(slog.DiscardHandler), Facades: []facade.Facade{passed}})
	defer h.Close()
	relay, proxy := httptest.NewServer(h), httptest.NewServer(httputil.NewSingleHostReverseProxy(at))
	defer relay.Close()
	defer proxy.Close()
	// a user reads eight files at once
	links := []string{linkTo(b, passed, relay.URL, "ann"), linkTo(b, passed, relay.URL, "bob")}
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
		for range 5 {
			var rate [2]float64
			for i, urls := range [][]string{links, {proxy.URL + "/a.tif"}} {
				rate[i] = readAll(b, urls, c.clients, c.ranges, c.times)
				rates[i] = append(rates[i], rate[i])
			}
			ratios = append(ratios, rate[0]/rate[1])
		}
		slices.Sort(ratios)
		slices.Sort(rates[0])
		slices.Sort(rates[1])
		fmt.Fprintf(os.Stdout, "%s: %.0f MB/s, a reverse proxy %.0f MB/s, ratio %.2f (medians of 5)\n", c.name,
			rates[0][2], rates[1][2], ratios[2])
	}
}

// linkTo returns a link of the façade to a file.
func linkTo(b testing.TB, f *files.Facade, server string, u dispatch.UserID) string {
	b.Helper()
	c := stac.Object{"assets": []byte(`{"a":{"href":"https://x.example/a.tif"}}`)}
	if err := f.Pass(c, server, u, dispatch.Account("p/"+u), 1, time.Now().Add(time.Hour)); err != nil {
		b.Fatal(err)
	}
	_, link, _ := strings.Cut(string(c["assets"]), `"href":"`)
	link, _, _ = strings.Cut(link, `"`)
	return link
}

// readAll returns with how many MB/s clients read URLs, each so many times.
func readAll(b *testing.B, urls []string, clients int, ranges string, times int) float64 {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	var mu sync.Mutex
	total, begun := int64(0), time.Now()
	for i := range clients {
		all.Go(func() {
			for range times {
				r, _ := http.NewRequest(http.MethodGet, urls[i%len(urls)], nil)
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
