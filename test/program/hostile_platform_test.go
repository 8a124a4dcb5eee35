//go:build linux

package program

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// hostilePlatform is an openEO back-end that accepts jobs, and answers all other requests about them with one fault
// after the other.
func hostilePlatform(t *testing.T) (address string, played func() bool) {
	t.Helper()
	faults := []simulator.Reply{
		simulator.JSONReply(200, "", `{"jobs":[`+strings.TrimSuffix(strings.Repeat(`{},`, 3_000_000), ",")+`]}`),
		simulator.JSONReply(200, "", `{"id":"j","status":[`+strings.TrimSuffix(strings.Repeat(`[],`, 3_000_000), ",")+
			`]}`),
	}
	for name, reply := range simulator.HostileReplies() {
		if name != "nothing" { // "nothing" lasts until the program ends
			faults = append(faults, reply)
		}
	}
	var made, odd atomic.Int64
	h := &simulator.Hostile{Answer: func(r *http.Request) simulator.Reply {
		switch {
		case r.URL.Path == "/":
			return simulator.JSONReply(200, "", `{"api_version":"1.2.0"}`)
		case r.URL.Path == "/credentials/oidc", r.URL.Path == "/.well-known/openeo", r.URL.Path == "/file_formats":
			return simulator.JSONReply(404, "", `{}`)
		case r.Method == http.MethodPost && r.URL.Path == "/jobs":
			return simulator.JSONReply(201, fmt.Sprintf("OpenEO-Identifier: j-%d\r\n", made.Add(1)), ``)
		case r.Method == http.MethodPost:
			return simulator.JSONReply(202, "", ``)
		}
		return faults[int(odd.Add(1))%len(faults)]
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go h.Serve(l)
	return "http://" + l.Addr().String(), func() bool { return odd.Load() >= int64(len(faults)) }
}

// TestHostilePlatform_DelaysNobodyElse runs the real program with two platforms. While one answers whatever is asked
// about its jobs with gigabytes, bombs and silence, a job at the other is not delayed, the program's memory is bounded,
// and the jobs at the hostile one say what is the matter.
func TestHostilePlatform_DelaysNobodyElse(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.OpenEO.SetLife(simulator.Life{Run: 4 * time.Second})
	known := w.Credentials
	bad, played := hostilePlatform(t)
	account := fmt.Sprintf(`{"token_url": "%s/protocol/openid-connect/token", "client_id": %q, "client_secret": %q}`,
		known.Platform, known.ServiceID, known.ServiceSecret)
	p := Start(t, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
		"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID,
		"EODISPATCH_DATABASE=sqlite:d.db", "EODISPATCH_LIMITS_USER_REQUESTS=100", fmt.Sprintf(`EODISPATCH_PLATFORMS=[
			{"name": "good", "protocol": "openeo", "endpoint": %q, "access": "shared", "service_account": %s, "users": {"jobs": 1000}},
			{"name": "bad", "protocol": "openeo", "endpoint": %q, "access": "shared", "service_account": %s, "users": {"jobs": 1000}, "limits": {"send": "15s"}}]`,
			w.OpenEOURL, account, bad, account))
	alice, bob := As(w, p.Address, "alice", nil), As(w, p.Address, "bob", nil)
	good := OpenEO(w)
	good.Service.Application, good.Parameters = documentHost(t).URL+"/good", []byte(`{}`)
	alone := bob.lasts(t, good)
	evil := good
	evil.Service.Endpoint = bad
	const jobs = 30
	alice.submitMany(t, jobs, evil)
	least := time.Hour // of as many as it takes until all faults occurred; a busy machine only adds to it
	for n := 0; n < 60 && !played() || n < 3 && least > notDelayed(alone); n++ {
		took := bob.lasts(t, good)
		t.Logf("beside a hostile platform a job took %v, alone %v", took, alone)
		least = min(least, took)
	}
	if !played() {
		t.Error("not all faults were played")
	}
	if least > notDelayed(alone) {
		t.Errorf("beside a hostile platform a job took %v, alone %v", least, alone)
	}
	if most := peakMemory(t, p.Process.Pid); most > 512<<20 {
		t.Errorf("%d MiB of memory were in use", most>>20)
	} else {
		t.Logf("%d MiB of memory were in use", most>>20)
	}
	alice.checkAttention(t, jobs)
	if code := p.Stop(t); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// submitMany submits n jobs concurrently.
func (c Client) submitMany(t *testing.T, n int, r dispatch.Request) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := c.Submit(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// checkAttention checks that the user's jobs at a hostile platform show why they make no progress, and that none has
// finished.
func (c Client) checkAttention(t *testing.T, jobs int) {
	t.Helper()
	var list struct {
		Jobs []struct {
			Status    string
			Attention *struct{ Code, Message string }
		} `json:"processing_jobs"`
	}
	if err := c.Call(t.Context(), http.MethodGet, "/jobs_status", nil, &list); err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, j := range list.Jobs {
		if j.Attention != nil && len(j.Attention.Message) > 10 {
			said++
		}
		if j.Status == string(dispatch.Finished) {
			t.Error("a job finished without any notice")
		}
	}
	if len(list.Jobs) != jobs || said == 0 {
		t.Errorf("%d of %d jobs say what is the matter", said, len(list.Jobs))
	}
}

// peakMemory returns the maximum memory of a process in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.TrimSpace(Between(rest, "", "kB")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
