// Package mailbox runs a real SMTP server for tests, which keeps what it is sent.
package mailbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/mail"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Server is an SMTP server with one account, eo with the password secret.
type Server struct {
	Address string         // host:port, without encryption and with STARTTLS
	TLS     string         // host:port, encrypted from the beginning
	Roots   *x509.CertPool // of its certificate

	mu       sync.Mutex
	mails    []Mail
	refusing error
	arrived  chan struct{}
}

// Mail is a message as it arrived.
type Mail struct {
	From   string
	To     []string
	User   string // who signed in
	Secure bool   // the connection was encrypted
	UTF8   bool   // it was sent as SMTPUTF8
	mail.Header
	Text string // as it was sent, perhaps encoded
}

// Start starts a server that ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{arrived: make(chan struct{}, 1000)}
	certificate, roots, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	s.Roots = roots
	for _, at := range []struct {
		address *string
		serve   func(*smtp.Server, net.Listener) error
	}{
		{&s.Address, (*smtp.Server).Serve},
		{&s.TLS, func(server *smtp.Server, l net.Listener) error {
			return server.Serve(tls.NewListener(l, server.TLSConfig))
		}},
	} {
		server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
			return &session{server: s,
				conn: c}, nil
		}))
		server.Domain, server.EnableSMTPUTF8, server.TLSConfig = "mail.example.org", true,
			&tls.Config{Certificates: []tls.Certificate{certificate}}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*at.address = listener.Addr().String()
		go func() { _ = at.serve(server, listener) }() // until it is closed
		t.Cleanup(func() { _ = server.Close() })
	}
	return s
}

// Refuse has the server refuse messages with an error; nil: it accepts them.
func (s *Server) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = err
}

// Mails returns what has arrived.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Await waits until so many mails have arrived since the test began, and returns all.
func (s *Server) Await(t *testing.T, n int) []Mail {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		if all := s.Mails(); len(all) >= n {
			return all
		}
		select {
		case <-s.arrived:
		case <-limit:
			t.Fatalf("%d of %d mails arrived", len(s.Mails()), n)
		}
	}
}

// session is one connection.
type session struct {
	server *Server
	conn   *smtp.Conn
	user   string
	from   string
	utf8   bool
	to     []string
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "eo" || password != "secret" {
			return errors.New("wrong name or password")
		}
		s.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, o *smtp.MailOptions) error {
	s.from, s.utf8 = from, o != nil && o.UTF8
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(message.Body)
	if err != nil {
		return err
	}
	_, secure := s.conn.TLSConnectionState()
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.refusing != nil {
		return s.server.refusing
	}
	s.server.mails = append(s.server.mails, Mail{From: s.from, To: s.to, User: s.user, Secure: secure, UTF8: s.utf8,
		Header: message.Header, Text: string(text)})
	s.server.arrived <- struct{}{}
	return nil
}

func (s *session) Reset() { s.from, s.to = "", nil }

func (s *session) Logout() error { return nil }

// newCertificate returns a certificate for 127.0.0.1, and the pool in which it is trusted.
func newCertificate() (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	own, err := x509.ParseCertificate(text)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(own)
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, roots, nil
}
