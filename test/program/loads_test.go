//go:build linux

package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const (
	loadMemory = 150 * mib // maximum memory of a load
	loadFactor = 5         // factor by which it may slow others
	// median below which it never counts as slow, because the machine and the clients also take time
	loadFloor = 2 * time.Second
	loadPeak  = 4 * time.Second // likewise, of the 99th percentile: without limits it was 6 s
)

// TestServe_LoadsDelayNobodyElse: clients that open connections and send little, send a thousand requests at once, or
// do not read, must cost others little time and the program little memory. With -full there are four times as many slow
// connections. The clients run in a process of the lowest priority, so that what is measured is the program and not the
// rest of the machine.
func TestServe_LoadsDelayNobodyElse(t *testing.T) {
	r := newRealm(t, nil)
	r.keep(t, "mallory", 8, mib)
	r.keep(t, "bob", 10, 1000)
	for name := range loads {
		t.Run(name, func(t *testing.T) {
			a := r.start(t, "EODISPATCH_LOG_LEVEL=info")
			bob := r.token("bob")
			a.latencies(t, bob) // the first ones are slower
			alone, before := a.latencies(t, bob), a.resident(t, "VmRSS")
			end := a.load(t, name)
			beside, used := a.latencies(t, bob), a.resident(t, "VmHWM")-before
			t.Logf("%v alone, %v beside it; %d MiB more", alone, beside, used>>20)
			if beside.median > max(loadFactor*alone.median, loadFloor) {
				t.Errorf("others' median is %v, alone %v", beside.median, alone.median)
			}
			if beside.p99 > max(loadFactor*alone.p99, loadPeak) {
				t.Errorf("others' p99 is %v, alone %v", beside.p99, alone.p99)
			}
			if used > loadMemory {
				t.Errorf("%d MiB more, above %d", used>>20, loadMemory>>20)
			}
			end()
			a.Stop(t)
		})
	}
}

// loads start clients that go on until ctx ends, and return when all have begun.
var loads = map[string]func(ctx context.Context, l load) error{
	"connections that send little": slowConnections, "a thousand requests at once": manyRequests,
	"streams that are not read": idleStreams,
}

// load is what the process of a load gets as JSON in the variable loadVariable.
type load struct {
	Name, Address, Token string
	Connections          int
}

const loadVariable = "EODISPATCH_TEST_LOAD"

// load starts the clients of a load in a process of their own, and returns when all have begun.
func (a *attacked) load(t *testing.T, name string) (end func()) {
	t.Helper()
	l := load{Name: name, Address: a.Address, Token: a.token, Connections: 1_000}
	if *full {
		l.Connections = 4_000
	}
	settings, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	clients := exec.Command("nice", "-n", "19", os.Args[0])
	clients.Env, clients.Stderr = append(os.Environ(), loadVariable+"="+string(settings)), os.Stderr
	in, inErr := clients.StdinPipe()
	out, outErr := clients.StdoutPipe()
	if err := errors.Join(inErr, outErr, clients.Start()); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		in.Close()
		_ = clients.Wait() // fails when it could not begin, which is reported below
	})
	t.Cleanup(end)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the load did not begin: %v", err)
	}
	return end
}

func init() {
	settings, ok := os.LookupEnv(loadVariable)
	if !ok {
		return
	}
	if err := playLoad(settings); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playLoad is the process of a load: it prints a line when all clients have begun, and ends when its input ends.
func playLoad(settings string) error {
	var l load
	if err := json.Unmarshal([]byte(settings), &l); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	if err := loads[l.Name](ctx, l); err != nil {
		return err
	}
	fmt.Println("begun")
	<-ctx.Done()
	return nil
}

// latencies of reads. A busy machine delays some of them, so a test must allow the p99 more than the median.
type latencies struct{ median, p99 time.Duration }

func (l latencies) String() string { return fmt.Sprintf("%v (p99 %v)", l.median, l.p99) }

// latencies measures 1,000 reads of a list, half of them on new connections.
func (a *attacked) latencies(t *testing.T, token string) latencies {
	t.Helper()
	var all []time.Duration
	for i := range 1000 {
		if i%2 == 0 {
			Pooled.CloseIdleConnections()
		}
		began := time.Now()
		code, text, err := a.send(http.MethodGet, "/jobs_status?limit=10", token, http.NoBody)
		if err != nil || code != http.StatusOK {
			t.Fatalf("%d %s %v", code, text, err)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return latencies{median: all[len(all)/2], p99: all[len(all)*99/100]}
}

// slowConnections begin a request whose head arrives at a byte a minute, and reconnect when they are closed.
func slowConnections(ctx context.Context, l load) error {
	var open sync.WaitGroup
	for range l.Connections {
		open.Add(1)
		go func() {
			opened := sync.OnceFunc(open.Done)
			defer opened()
			for ctx.Err() == nil {
				connection, err := net.Dial("tcp", strings.TrimPrefix(l.Address, "http://"))
				if err != nil {
					return
				}
				end := context.AfterFunc(ctx, func() { connection.Close() })
				// fails when it was closed
				_, _ = fmt.Fprint(connection, "GET /jobs_status HTTP/1.1\r\nHost: a\r\nX-Slow: ")
				opened()
				_, _ = connection.Read(make([]byte, 1)) // returns early when it was closed
				end()
				connection.Close()
			}
		}()
	}
	open.Wait()
	return nil
}

// manyRequests keeps requests of one user under way until the end.
func manyRequests(ctx context.Context, l load) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	var begun sync.WaitGroup
	for range 1_000 {
		begun.Add(1)
		go func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.Address+"/jobs_status", nil)
				if err != nil {
					return
				}
				request.Header.Set("Authorization", "Bearer "+l.Token)
				first()
				response, err := client.Do(request)
				if err != nil {
					return
				}
				_, _ = response.Body.Read(make([]byte, 1)) // the rest is not read
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
				response.Body.Close()
			}
		}()
	}
	begun.Wait()
	return nil
}

// idleStreams opens as many streams as a user may have. Each is sent a list that it never reads.
func idleStreams(ctx context.Context, l load) error {
	header := http.Header{"Authorization": {"Bearer " + l.Token}}
	for range 100 {
		socket, _, err := websocket.Dial(ctx, l.Address+"/job_status", &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = socket.CloseNow() })
	}
	return nil
}
