package main

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestServe_BoundsConnections: one connection more than limits.connections is served when another has ended.
func TestServe_BoundsConnections(t *testing.T) {
	address := served(t, settingsOf(t, "listen: 127.0.0.1:0\ndatabase: sqlite:"+filepath.Join(t.TempDir(), "eo.db")+
		"\nlimits: {connections: 1}\n"+
		"identity: {issuer: https://a.example.org, client_id: a}\nplatforms:\n- {name: p, protocol: openeo, endpoint: "+
		"https://b.example.org, access: open}"))
	first, second := dialed(t, address), dialed(t, address)
	if !answers(t, first, time.Minute) {
		t.Fatal("the first connection is not served")
	}
	if answers(t, second, 200*time.Millisecond) {
		t.Error("the second connection is served beside the first")
	}
	first.Close()
	if !answers(t, second, time.Minute) {
		t.Error("the second connection is not served after the first")
	}
}

func dialed(t *testing.T, address string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// answers reports whether a request on the connection is answered in time.
func answers(t *testing.T, connection net.Conn, within time.Duration) bool {
	t.Helper()
	if _, err := fmt.Fprint(connection, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := connection.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	n, _ := connection.Read(make([]byte, 4096))
	return n > 0
}
