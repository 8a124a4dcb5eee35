// Package mail sends mail by a server that speaks SMTP.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	// MostBytes is the length of the longest address.
	MostBytes = 254

	within = 15 * time.Second // one message
	step   = 10 * time.Second // to connect, to sign in, to send
	atOnce = 4                // messages that are sent at once: servers allow few connections
)

// Encryption is how the connection to the server is protected.
type Encryption string

const (
	StartTLS Encryption = "starttls" // from the command STARTTLS on, without which nothing is sent
	Implicit Encryption = "implicit" // from the beginning
	Plain    Encryption = "none"     // not at all
)

// Config names the server.
type Config struct {
	Server     string // host:port
	From       string // a mailbox, which may have a name: EO jobs <noreply@example.org>
	Encryption Encryption
	Username   string // "": without a sign-in
	Password   dispatch.Secret
	Roots      *x509.CertPool // nil: those of the system
}

// Message is a mail of plain text.
type Message struct {
	To      string // an address without a name
	ID      string // letters, digits, dots and hyphens; of each try the same
	Subject string // one line
	Text    string
}

// Sender sends mail. It is safe for concurrent use.
type Sender struct {
	Config
	host   string
	port   int
	domain string // of the sender
	places chan struct{}
}

// New returns a sender, or an error that says which setting is wrong. It does not connect.
func New(c Config) (*Sender, error) {
	host, text, err := net.SplitHostPort(c.Server)
	port, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || wrong != nil || host == "" {
		return nil, errors.New("server: write HOST:PORT, for example smtp.example.org:587")
	}
	from, err := mail.ParseAddress(c.From)
	if err != nil || CheckAddress(from.Address) != nil {
		return nil, errors.New("from: write an address, for example EO jobs <noreply@example.org>")
	}
	switch c.Encryption {
	case StartTLS, Implicit:
	case Plain:
		if c.Username != "" {
			return nil, errors.New("encryption: none would send the password unprotected; write starttls or implicit")
		}
	default:
		return nil, errors.New("encryption: write starttls, implicit or none")
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	return &Sender{Config: c, host: host, port: int(port), domain: domain, places: make(chan struct{}, atOnce)}, nil
}

// CheckAddress returns an error if a text is not one plain address: a@b in ASCII, without a name, quotes or spaces, and
// so without anything that could end a header or add a recipient.
func CheckAddress(text string) error {
	local, domain, _ := strings.Cut(text, "@")
	other := func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),:;<>@[\]`, r)
	}
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text || local == "" || domain == "" || len(text) > MostBytes ||
		strings.ContainsFunc(local, other) || strings.ContainsFunc(domain, other) {
		return errors.New("this is not an e-mail address of the form name@example.org")
	}
	return nil
}

// Send sends a message. It waits for its turn, and returns an error if the server did not accept the message.
func (s *Sender) Send(ctx context.Context, m Message) error {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "mail.Send", Text: "The mail server is slow.",
			Err: ctx.Err()}
	}
	message, err := s.compose(m)
	if err != nil {
		return &dispatch.Error{Kind: dispatch.Internal, Op: "mail.Send", Text: "The message could not be written.",
			Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "mail.Send",
			Text: "The settings of the mail server are not valid.", Err: err}
	}
	if err := client.DialAndSendWithContext(ctx, message); err != nil && !message.IsDelivered() {
		return failure(err)
	}
	return nil
}

// Check connects to the server and signs in, as Send does, and sends nothing. Its error says what failed, for
// operators.
func (s *Sender) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, err := s.client(ctx)
	if err == nil {
		err = client.DialWithContext(ctx)
	}
	if err != nil {
		return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "mail.Check",
			Text: "The mail server cannot be reached, or refused the sign-in of this service.", Err: err}
	}
	_ = client.Close() // it has answered what was asked
	return nil
}

func (s *Sender) compose(m Message) (*gomail.Msg, error) {
	if strings.ContainsAny(m.Subject+m.ID, "\r\n") {
		return nil, errors.New("a header has more than one line")
	}
	if err := CheckAddress(m.To); err != nil {
		return nil, err
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.Subject(m.Subject)
	message.SetMessageIDWithValue(m.ID + "@" + s.domain)
	message.SetDate()
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: nobody who is away answers
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	return message, errors.Join(message.From(s.From), message.To(m.To))
}

// client returns a client whose connection ends with ctx, whatever the server does. One that is encrypted from the
// beginning ends by its time limits alone, because the library knows that it is encrypted only if it dials itself.
func (s *Sender) client(ctx context.Context) (*gomail.Client, error) {
	protection := &tls.Config{ServerName: s.host, RootCAs: s.Roots, MinVersion: tls.VersionTLS12}
	bounded := func(_ context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = c.Close() }) // what waits for the server then fails
		}
		return c, err
	}
	// All headers are ASCII. With SMTPUTF8 a server further on that does not know it would refuse the message.
	options := []gomail.Option{gomail.WithPort(s.port), gomail.WithoutSMTPUTF8(), gomail.WithTimeout(step),
		gomail.WithTLSConfig(protection)}
	switch s.Encryption {
	case Implicit:
		options = append(options, gomail.WithSSL())
	case Plain:
		options = append(options, gomail.WithDialContextFunc(bounded), gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithDialContextFunc(bounded), gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if s.Username != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.Username),
			gomail.WithPassword(s.Password.Reveal()))
	}
	return gomail.NewClient(s.host, options...)
}

// failure returns the error of a message that was not accepted. Its text, which the recipient can read, has the code of
// the response and nothing of its text.
func failure(err error) error {
	e := &dispatch.Error{Kind: dispatch.Unavailable, Op: "mail.Send",
		Text: "The mail server cannot be reached, or refused the sign-in of this service.", Err: err}
	if refused, ok := errors.AsType[*gomail.SendError](err); ok && refused.ErrorCode() >= 400 {
		e.Kind, e.Text = dispatch.BadUpstream, "The mail server did not accept the message: "+
			strings.TrimSpace(fmt.Sprint(refused.ErrorCode(), " ", refused.EnhancedStatusCode()))+"."
	}
	return e
}
