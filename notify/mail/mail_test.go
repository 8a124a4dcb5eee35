package mail_test

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/mail"
	"github.com/eodispatch/eodispatch/test/mailbox"
)

var letter = mail.Message{To: "ann@example.org", ID: "h.1", Subject: "Task 1 has ended", Text: "Größe: 7\n.\nQUIT\n"}

func newSender(t *testing.T, c mail.Config) *mail.Sender {
	t.Helper()
	c.From = "EO jobs <noreply@broker.example.org>"
	s, err := mail.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSend_ToARealServer: with each protection and a sign-in, one mail arrives, with what its text says and the headers
// of a machine's mail.
func TestSend_ToARealServer(t *testing.T) {
	server := mailbox.Start(t)
	for name, c := range map[string]mail.Config{
		"starttls": {Server: server.Address, Encryption: mail.StartTLS, Username: "eo", Password: "secret",
			Roots: server.Roots},
		"implicit": {Server: server.TLS, Encryption: mail.Implicit, Username: "eo", Password: "secret",
			Roots: server.Roots},
		"none": {Server: server.Address, Encryption: mail.Plain},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(server.Mails())
			if err := newSender(t, c).Send(t.Context(), letter); err != nil {
				t.Fatal(err)
			}
			all := server.Await(t, before+1)
			got := all[len(all)-1]
			if got.From != "noreply@broker.example.org" || len(got.To) != 1 || got.To[0] != "ann@example.org" ||
				got.User != c.Username || got.Secure == (name == "none") || got.UTF8 {
				t.Errorf("%+v", got)
			}
			if h := got.Header; h.Get("Subject") != letter.Subject ||
				h.Get("Message-Id") != "<h.1@broker.example.org>" ||
				h.Get("Auto-Submitted") != "auto-generated" || h.Get("Date") == "" || h.Get("X-Mailer") != "" ||
				h.Get("From") != `"EO jobs" <noreply@broker.example.org>` {
				t.Errorf("%v", h)
			}
			if !strings.Contains(got.Text, "Gr=C3=B6=C3=9Fe: 7\r\n.\r\nQUIT") {
				t.Errorf("%q", got.Text)
			}
		})
	}
}

// TestSend_ReportsWhatIsWrong: a server that is not trusted, refuses, or is not there. Texts for users have the code,
// and nothing that the server says.
func TestSend_ReportsWhatIsWrong(t *testing.T) {
	server := mailbox.Start(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	good := mail.Config{Server: server.Address, Encryption: mail.StartTLS, Roots: server.Roots}
	for name, c := range map[string]struct {
		config mail.Config
		refuse error
		kind   dispatch.Kind
		text   string
	}{
		"an unknown certificate": {mail.Config{Server: server.Address, Encryption: mail.StartTLS,
			Roots: x509.NewCertPool()}, nil, dispatch.Unavailable, "cannot be reached"},
		"a wrong password": {mail.Config{Server: server.Address, Encryption: mail.StartTLS, Roots: server.Roots,
			Username: "eo", Password: "wrong"}, nil, dispatch.Unavailable, "refused the sign-in of this service"},
		"no server": {mail.Config{Server: closed.Addr().String(), Encryption: mail.StartTLS}, nil,
			dispatch.Unavailable, "cannot be reached"},
		"no such mailbox": {good, &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1},
			Message: "internal-host says no"}, dispatch.BadUpstream, "550 5.1.1"},
		"busy": {good, &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0},
			Message: "internal-host is busy"}, dispatch.BadUpstream, "451 4.3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			server.Refuse(c.refuse)
			err := newSender(t, c.config).Send(t.Context(), letter)
			if text := dispatch.TextFor(err); dispatch.KindOf(err) != c.kind || !strings.Contains(text, c.text) ||
				strings.Contains(text, "internal-host") || strings.Contains(text, "127.0.0.1") {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
	if n := len(server.Mails()); n != 0 {
		t.Errorf("%d mails arrived", n)
	}
}

// TestCheck signs in with each protection and sends nothing. What is wrong is an error.
func TestCheck(t *testing.T) {
	server := mailbox.Start(t)
	for name, c := range map[string]struct {
		config mail.Config
		good   bool
	}{
		"starttls": {mail.Config{Server: server.Address, Encryption: mail.StartTLS, Username: "eo",
			Password: "secret", Roots: server.Roots}, true},
		"implicit": {mail.Config{Server: server.TLS, Encryption: mail.Implicit, Username: "eo",
			Password: "secret", Roots: server.Roots}, true},
		"none": {mail.Config{Server: server.Address, Encryption: mail.Plain}, true},
		"a wrong password": {mail.Config{Server: server.Address, Encryption: mail.StartTLS, Username: "eo",
			Password: "wrong", Roots: server.Roots}, false},
		"an unknown certificate": {mail.Config{Server: server.Address, Encryption: mail.StartTLS,
			Roots: x509.NewCertPool()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := newSender(t, c.config).Check(t.Context()); (err == nil) != c.good ||
				strings.Contains(dispatch.TextFor(err), "127.0.0.1") {
				t.Error(err)
			}
		})
	}
	if n := len(server.Mails()); n != 0 {
		t.Errorf("%d mails arrived", n)
	}
}

// TestSend_EndsWithItsContext: a server that accepts connections and says nothing, or stops in the middle, holds
// nobody.
func TestSend_EndsWithItsContext(t *testing.T) {
	for name, greeting := range map[string]string{"silent": "", "greets": "220 mail.example.org ESMTP\r\n"} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, greeting)
				cancel()
				_, _ = io.Copy(io.Discard, c) // until the client closes
			}()
			if err := newSender(t, mail.Config{Server: listener.Addr().String(), Encryption: mail.StartTLS}).Send(ctx,
				letter); err == nil {
				t.Error("it was sent")
			}
		})
	}
}

// TestSend_WaitsForItsTurn: the error of a message for which a slow server leaves no time is that of the server.
func TestSend_WaitsForItsTurn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(t, mail.Config{Server: listener.Addr().String(), Encryption: mail.StartTLS})
	slow, end := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	defer sending.Wait()
	defer end()
	for range 4 {
		sending.Go(func() { _ = s.Send(slow, letter) })
		c, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Send(ctx, letter); !dispatch.Is(err, dispatch.Unavailable) {
		t.Errorf("%v: %s", err, dispatch.TextFor(err))
	}
}

// TestSend_NoInjection: nothing that ends a header or adds a recipient gets to the server.
func TestSend_NoInjection(t *testing.T) {
	server := mailbox.Start(t)
	s := newSender(t, mail.Config{Server: server.Address, Encryption: mail.Plain})
	for _, to := range hostile {
		if err := s.Send(t.Context(), mail.Message{To: to, ID: "x", Subject: "s", Text: "t"}); err == nil {
			t.Errorf("sent to %q", to)
		}
	}
	for _, m := range []mail.Message{{To: "ann@example.org", ID: "x", Subject: "s\r\nBcc: eve@example.org", Text: "t"},
		{To: "ann@example.org", ID: "x\nBcc: eve@example.org", Subject: "s", Text: "t"}} {
		if err := s.Send(t.Context(), m); err == nil {
			t.Errorf("sent: %+v", m)
		}
	}
	if all := server.Mails(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

var hostile = []string{"", "ann", "@example.org", "ann@", "ann@example.org\r\nRCPT TO:<eve@example.org>",
	"ann@example.org, eve@example.org", "Ann <ann@example.org>", `"a b"@example.org`,
	"ann@example.org?bcc=eve@example.org,", "ann@[127.0.0.1]", "änn@example.org", "ann@example.org ", "a@b@example.org",
	"<ann@example.org>", "ann@example.org\x00", strings.Repeat("a", 250) + "@example.org"}

// TestCheckAddress accepts plain addresses only.
func TestCheckAddress(t *testing.T) {
	for _, good := range []string{"ann@example.org", "a.b+c@sub.example.org", "o'neil@example.org", "x_y-z@localhost"} {
		if err := mail.CheckAddress(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range hostile {
		if mail.CheckAddress(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FuzzCheckAddress: what is accepted is a single recipient.
func FuzzCheckAddress(f *testing.F) {
	for _, text := range append(hostile, "ann@example.org") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if mail.CheckAddress(text) == nil && (strings.ContainsAny(text, " \r\n<>,;\"") ||
			strings.Count(text, "@") != 1 || len(text) > mail.MostBytes) {
			t.Errorf("%q is accepted", text)
		}
	})
}
