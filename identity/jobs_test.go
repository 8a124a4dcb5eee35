package identity

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// byHost routes requests to handlers by host.
type byHost map[string]http.Handler

func (h byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, ok := h[r.URL.Host]
	if !ok {
		return nil, fmt.Errorf("no host %q", r.URL.Host)
	}
	r = r.Clone(r.Context()) // as a server has it
	r.TLS = &tls.ConnectionState{}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// brokerOf returns a broker with one openEO platform P with access user, whose provider is n's.
func brokerOf(t *testing.T, n *network, tokens *Tokens) *broker.Broker {
	definition := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"empty","parameters":[],"process_graph":{"load":{"process_id":"load_collection",
			"arguments":{"id":"S2","spatial_extent":null,"temporal_extent":null},"result":true}}}`)
	})
	net := byHost{"docs.test": definition}
	eo := &simulator.OpenEO{Check: n.idp.Check("platform"), Life: simulator.Life{Run: 4 * time.Minute},
		Namespaces: &http.Client{Transport: net}}
	net["eo.test"] = eo
	store := conformance.NewMemStore(conformance.WallClock{})
	b := conformance.NewBroker(store, tokens, &dispatch.Backend{
		Name: "P", Label: dispatch.OpenEO, Endpoint: "https://eo.test", Access: dispatch.AccessUser,
		Platform: openeo.New(openeo.Config{Name: "P", Endpoint: "https://eo.test", TokenPrefix: "oidc/sim",
			Client: upstream.New(upstream.Config{Transport: net, Trust: []string{"https://eo.test", "docs.test"}})}),
		Limits: dispatch.Limits{Jobs: 1, Requests: 8, Send: 30 * time.Second, MinPoll: 2 * time.Second},
	})
	t.Cleanup(conformance.RunBroker(b))
	return b
}

// 50 users have two jobs each, one after the other, at a platform whose tokens last a minute. Its provider responds 503
// for a minute while some jobs run and others wait. At most two users must link again; nothing fails, and the jobs of
// those users end after they have linked.
func TestOutage_JobsContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 50
		n, tokens := world(t, "keycloak-broker", 0, nil)
		n.idp.TokenLife = time.Minute
		b := brokerOf(t, n, tokens)
		r := dispatch.Request{Title: "job", Label: dispatch.OpenEO, Format: "json", Parameters: json.RawMessage(`{}`),
			Service: dispatch.Service{Endpoint: "https://eo.test", Application: "https://docs.test/empty.json"}}
		var accepted sync.WaitGroup
		for i := range users {
			user := fmt.Sprint("user", i)
			n.idp.Link(user, user+"-p")
			subject := n.idp.Mint("apex", user, "portal",
				simulator.TokenFaults{Claims: map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}})
			tokens.StoreUserToken(t.Context(), dispatch.UserID(user), dispatch.Secret(subject),
				time.Now().Add(24*time.Hour))
			accepted.Go(func() {
				for range 2 {
					if _, err := b.Accept(t.Context(), dispatch.UserID(user), r, dispatch.Key{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		accepted.Wait()
		linked := n.idp.Linked()
		time.Sleep(time.Minute)
		n.idp.SetLinkBehavior(simulator.LinkBehavior{Status: 503})
		time.Sleep(time.Minute)
		n.idp.SetLinkBehavior(simulator.LinkBehavior{})
		time.Sleep(30 * time.Minute)
		lost := map[string]bool{}
		for i := range users {
			user := fmt.Sprint("user", i)
			for _, j := range jobsOf(t, b, user) {
				switch {
				case j.Status == dispatch.Finished:
				case j.Attention == dispatch.NeedsSignIn && !j.Status.Final():
					lost[user] = true
				default:
					t.Errorf("%s: %v %v %s", user, j.Status, j.Attention, j.Notice)
				}
			}
		}
		if got := linked - n.idp.Linked(); got == 0 || got > 2 || len(lost) != got {
			t.Errorf("%d links lost, jobs of %v wait", got, lost)
		}
		for user := range lost {
			n.idp.Link(user, user+"-p")
			b.HandleSignIn(t.Context(), dispatch.UserID(user), false)
		}
		time.Sleep(30 * time.Minute)
		for user := range lost {
			for _, j := range jobsOf(t, b, user) {
				if j.Status != dispatch.Finished {
					t.Errorf("%s has linked again: %v %v %s", user, j.Status, j.Attention, j.Notice)
				}
			}
		}
	})
}

func jobsOf(t *testing.T, b *broker.Broker, user string) []dispatch.Record {
	t.Helper()
	jobs, err := b.Records.Records(t.Context(), dispatch.UserID(user), dispatch.Page{})
	if err != nil || len(jobs) != 2 {
		t.Errorf("%s: %d jobs, %v", user, len(jobs), err)
	}
	return jobs
}
