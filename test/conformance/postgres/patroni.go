//go:build unix

package postgres

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clusterWithin is how long a cluster may take until a server can be written.
const clusterWithin = 5 * time.Minute

// Cluster is three servers under Patroni, which keeps its state in etcd. It ends with the test.
type Cluster struct {
	URL    string // lists all servers
	folder string
	bin    string // PostgreSQL's programs
	who    *syscall.SysProcAttr
	etcd   string // its address
	nodes  [3]clusterNode
}

type clusterNode struct {
	port, rest string // of PostgreSQL and of Patroni, on the loopback interface
	patroni    *exec.Cmd
}

// NewCluster starts a cluster in which a commit waits for a standby. It needs Patroni and etcd: see make failover.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{bin: bin, etcd: "127.0.0.1:" + freePort(t)}
	if c.folder, err = os.MkdirTemp("", "patroni"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(c.folder) })
	if c.who, err = giveFolderTo(c.folder); err != nil {
		t.Fatal(err)
	}
	peer := "http://127.0.0.1:" + freePort(t)
	c.run(t, "etcd", "--enable-v2=true", "--data-dir", filepath.Join(c.folder, "etcd"), "--listen-client-urls",
		"http://"+c.etcd,
		"--advertise-client-urls", "http://"+c.etcd, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer)
	until(t, func() bool { return answers("http://" + c.etcd + "/health") })
	var hosts []string
	for n := range c.nodes {
		c.nodes[n] = clusterNode{port: freePort(t), rest: "127.0.0.1:" + freePort(t)}
		hosts = append(hosts, "127.0.0.1:"+c.nodes[n].port)
	}
	c.URL = "postgres://postgres@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable"
	t.Cleanup(func() { c.end() })
	for n := range c.nodes {
		c.Launch(t, n)
		c.AwaitPrimary(t, -1)
	}
	c.AwaitWhole(t)
	return c
}

// run starts a program as the user who owns the folder.
func (c *Cluster) run(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir, command.SysProcAttr = c.folder, c.who
	path := filepath.Join(c.folder, fmt.Sprintf("%s-%d.log", name, time.Now().UnixNano()))
	if log, err := os.Create(path); err == nil {
		command.Stdout, command.Stderr = log, log
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(path); err == nil && t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	run(t, command)
	return command
}

// Launch starts Patroni of a node, which starts its server.
func (c *Cluster) Launch(t testing.TB, n int) {
	t.Helper()
	node, data := &c.nodes[n], filepath.Join(c.folder, fmt.Sprintf("n%d", n))
	settings := data + ".yml"
	text := fmt.Sprintf(patroniSettings, n, node.rest, c.etcd, node.port, data, c.bin, data+".pass", c.folder)
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	node.patroni = c.run(t, "patroni", settings)
}

// patroniSettings are of one node. Version 2 of etcd's interface is used on purpose: with version 3, Patroni 3.0.2 lets
// a primary that was frozen take its lease back.
const patroniSettings = `
scope: eodispatch
namespace: /db/
name: n%[1]d
restapi: {listen: "%[2]s", connect_address: "%[2]s"}
etcd: {host: "%[3]s", protocol: http}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 3
    retry_timeout: 5
    maximum_lag_on_failover: 1048576
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters: {max_connections: 300, wal_level: replica, hot_standby: "on", wal_log_hints: "on", max_wal_senders: 10, max_replication_slots: 10, wal_keep_size: 256MB}
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, {auth-local: trust}, {auth-host: trust}]
postgresql:
  listen: "127.0.0.1:%[4]s"
  connect_address: "127.0.0.1:%[4]s"
  data_dir: "%[5]s"
  bin_dir: "%[6]s"
  pgpass: "%[7]s"
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
  authentication: {superuser: {username: postgres, password: p}, replication: {username: replicator, password: p}, rewind: {username: rewinder, password: p}}
  parameters: {unix_socket_directories: "%[8]s"}
watchdog: {mode: "off"}
`

// Primary returns the node whose Patroni says that it is the primary; -1: none does.
func (c *Cluster) Primary() int {
	for n := range c.nodes {
		if answers("http://" + c.nodes[n].rest + "/primary") {
			return n
		}
	}
	return -1
}

// AwaitPrimary waits for a primary other than not, and returns it.
func (c *Cluster) AwaitPrimary(t testing.TB, not int) (primary int) {
	t.Helper()
	until(t, func() bool { primary = c.Primary(); return primary >= 0 && primary != not })
	return primary
}

// AwaitWhole waits until all nodes but the primary follow it.
func (c *Cluster) AwaitWhole(t testing.TB) {
	t.Helper()
	until(t, func() bool { return c.standbys() == len(c.nodes)-1 })
}

// standbys counts the nodes that follow the primary.
func (c *Cluster) standbys() (n int) {
	for i := range c.nodes {
		if answers("http://" + c.nodes[i].rest + "/replica") {
			n++
		}
	}
	return n
}

// Switchover makes another node the primary, as before maintenance. Patroni refuses that while no other node is up to
// date; then it is asked again.
func (c *Cluster) Switchover(t testing.TB, from int) {
	t.Helper()
	until(t, func() bool {
		out, err := exec.Command("patronictl", "-c", filepath.Join(c.folder, "n0.yml"), "switchover", "--force",
			"--master", fmt.Sprintf("n%d", from)).CombinedOutput()
		done := bytes.Contains(out, []byte("Successfully switched over"))
		if !done { // with a refusal patronictl succeeds
			t.Logf("the switchover: %v: %s", err, out)
		}
		return done
	})
}

// Signal sends a signal to all processes of a node.
func (c *Cluster) Signal(t testing.TB, n int, s syscall.Signal) {
	t.Helper()
	_ = c.nodes[n].patroni.Process.Signal(s) // it may have ended
	for _, pid := range c.server(t, n) {
		_ = syscall.Kill(pid, s) // likewise
	}
}

// server lists the processes of a node's server, its first one first.
func (c *Cluster) server(t testing.TB, n int) []int {
	text, err := os.ReadFile(filepath.Join(c.folder, fmt.Sprintf("n%d", n), "postmaster.pid"))
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return nil
	}
	return append([]int{pid}, children(t, pid)...)
}

// end kills all servers, which are no children of their Patroni.
func (c *Cluster) end() {
	for n := range c.nodes {
		if p := c.nodes[n].patroni; p != nil {
			_ = p.Process.Kill()
		}
		text, _ := os.ReadFile(filepath.Join(c.folder, fmt.Sprintf("n%d", n), "postmaster.pid"))
		first, _, _ := strings.Cut(string(text), "\n")
		if pid, err := strconv.Atoi(first); err == nil {
			_ = syscall.Kill(pid, syscall.SIGCONT)
			_ = syscall.Kill(pid, syscall.SIGQUIT)
		}
	}
}

// answers reports whether a URL is answered with 200.
func answers(url string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func until(t testing.TB, ok func() bool) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(clusterWithin); !ok(); <-again.C {
		if time.Now().After(end) {
			t.Fatal("the cluster does not get there")
		}
	}
}

// freePort returns a port of the loopback interface on which nobody listens.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
