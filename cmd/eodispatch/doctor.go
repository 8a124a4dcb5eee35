package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
)

type doctorCommand struct {
	configured
	Timeout time.Duration `default:"15s" help:"How long each check may take."`
}

// check is one thing that must work.
type check struct {
	name   string
	ask    func(context.Context) (unproven string, err error)
	advice string // what to do when it does not
}

// sure is a check that either shows all or finds an error.
func sure(ask func(context.Context) error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return "", ask(ctx) }
}

// finding is what a check found: an error, or nil and what it could not look at.
type finding struct {
	name, advice string
	unproven     string
	err          error
}

func (f finding) String() string {
	switch {
	case f.err == nil && f.unproven == "":
		return "ok   " + f.name
	case f.err == nil:
		return fmt.Sprintf("ok   %s, but not checked: %s; %s", f.name, f.unproven, f.advice)
	}
	return fmt.Sprintf("FAIL %s: %s; %s", f.name, explained(f.err), f.advice)
}

// Run makes all checks at once and prints a line for each, in their order.
func (d *doctorCommand) Run(c console) error {
	settings, err := d.load(c)
	if err != nil {
		return err
	}
	ctx, stop := c.signals(context.Background())
	defer stop()
	checks, err := checksOf(settings)
	if err != nil {
		return err
	}
	for _, note := range settings.Notes {
		fmt.Fprintln(c.out, "note", note)
	}
	findings := append([]finding{{name: "configuration"}}, diagnose(ctx, checks, d.Timeout)...)
	for _, f := range findings {
		fmt.Fprintln(c.out, f)
	}
	for _, line := range unrecognized(ctx, settings) {
		fmt.Fprintln(c.out, "note", line)
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return f.err != nil }) {
		return errSaid
	}
	return nil
}

// diagnose makes the checks at once, each for no longer than within.
func diagnose(ctx context.Context, checks []check, within time.Duration) []finding {
	findings := make([]finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			findings[i] = finding{name: c.name, advice: c.advice}
			findings[i].unproven, findings[i].err = c.ask(ctx)
		})
	}
	all.Wait()
	return findings
}

// explained is an error in one line that an operator may read: what happened, and why as far as that is known.
func explained(err error) string {
	text := err.Error()
	if e, ok := errorOf(err); ok && e.Text != "" {
		text = strings.TrimSuffix(e.Text, ".")
		if e.Err != nil {
			text += " (" + e.Err.Error() + ")"
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// checksOf lists what a broker with these settings needs.
func checksOf(settings *config.Config) ([]check, error) {
	verifier, err := identity.NewVerifier(verifierOf(settings))
	if err != nil {
		return nil, err
	}
	backends := platforms(settings)
	tokens, err := identity.NewTokens(tokensOf(settings, backends, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	checks := []check{{
		name: "database", ask: sure(func(ctx context.Context) error { return askDatabase(ctx, settings) }),
		advice: "see that the server runs and that `database` names it with a user who may create tables",
	}, {
		name: "identity provider " + settings.Identity.Issuer, ask: sure(verifier.Probe),
		advice: "see that `identity.issuer` is exactly what its discovery document says, and that it can be reached from here",
	}}
	for i, b := range backends {
		if e := settings.Platforms[i].Exchange; e != nil {
			checks = append(checks, check{
				name:   fmt.Sprintf("exchange for platform %s (%s)", b.Name, e.Driver),
				ask:    func(ctx context.Context) (string, error) { return tokens.Check(ctx, b.Name) },
				advice: "see docs/identity.md for what the identity provider must be told for this driver",
			})
		}
		checks = append(checks, check{
			name: fmt.Sprintf("platform %s (%s, access %s) %s", b.Name, b.Label, b.Access, b.Endpoint),
			ask:  sure(func(ctx context.Context) error { return askPlatform(ctx, b, tokens) }),
			advice: "see that `endpoint` and `protocol` are right, that it can be reached from here, and, where access is shared, " +
				"that it takes the tokens of `service_account`",
		})
	}
	return checks, nil
}

// askDatabase opens the database, which also brings its tables up to date, and tries the vault's keys. An SQLite file that a
// broker has open is fine.
func askDatabase(ctx context.Context, settings *config.Config) error {
	s, err := store.Open(ctx, settings.Database.Reveal(), wallClock{}, ownVersion())
	switch {
	case dispatch.Is(err, dispatch.Conflict):
		return nil
	case err != nil:
		return err
	}
	defer s.Close()
	ring, err := keyring(settings)
	if err == nil && ring != nil {
		err = identity.Readable(ctx, s, ring)
	}
	return errors.Join(s.Ping(ctx), err)
}

// askPlatform asks a platform whether it can be used, with the token of its account. A user's token is not to be had
// here: such a platform is asked without.
func askPlatform(ctx context.Context, b *dispatch.Backend, tokens dispatch.Tokens) error {
	var token dispatch.Token
	if b.Access == dispatch.AccessShared {
		var err error
		if token, err = tokens.Token(ctx, b.Account("")); err != nil {
			return err
		}
	}
	return b.Platform.(dispatch.Prober).Probe(ctx, token)
}
