package postgres

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy forwards connections to a server. It can stop forwarding without closing them, which looks like a server that
// vanished from the network without a reset.
type Proxy struct {
	URL string // URL of the database behind it

	network, server string

	mu     sync.Mutex
	silent bool
	deaf   bool
	conns  map[net.Conn]bool
	calls  int
}

// NewProxy starts a proxy in front of a database. It ends with the test.
func NewProxy(t testing.TB, database string) *Proxy {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{network: "tcp", server: u.Host, conns: map[net.Conn]bool{}}
	query := u.Query()
	if folder := query.Get("host"); folder != "" {
		p.network, p.server = "unix", filepath.Join(folder, ".s.PGSQL.5432")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = l.Addr().String(), query.Encode()
	p.URL = u.String()
	go p.accept(l)
	t.Cleanup(func() { _ = l.Close(); p.Cut() })
	return p
}

// Silence stops forwarding on existing connections. With alsoNew, it stops on new ones too.
func (p *Proxy) Silence(alsoNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = false
	}
	p.silent = alsoNew
}

// Resume forwards new connections. Silenced ones stay silent.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = false
}

// DropNotifications drops the notifications that servers send, as a pooler does that gives a connection to another
// client after each transaction.
func (p *Proxy) DropNotifications(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Connections returns how many connections have been made so far.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go p.pass(client)
	}
}

func (p *Proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial(p.network, p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client] = !p.silent
	p.calls++
	p.mu.Unlock()
	defer p.forget(client)
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(gated{p, client, server}, client); ended <- struct{}{} }()
	go func() { p.answers(gated{p, client, client}, server); ended <- struct{}{} }()
	<-ended
}

// answers forwards a server's messages: a byte for the type, and a length that includes itself.
func (p *Proxy) answers(to io.Writer, server io.Reader) {
	const notification = 'A'
	r := bufio.NewReader(server)
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		message := append(head[:5:5], make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
		if _, err := io.ReadFull(r, message[5:]); err != nil {
			return
		}
		p.mu.Lock()
		dropped := p.deaf && head[0] == notification
		p.mu.Unlock()
		if dropped {
			continue
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

func (p *Proxy) forget(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
}

// gated writes to a connection while its client is forwarded.
type gated struct {
	proxy  *Proxy
	client net.Conn
	to     net.Conn
}

func (g gated) Write(b []byte) (int, error) {
	g.proxy.mu.Lock()
	open := g.proxy.conns[g.client]
	g.proxy.mu.Unlock()
	if !open {
		return len(b), nil // dropped
	}
	return g.to.Write(b)
}
