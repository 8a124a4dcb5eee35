package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
)

type doctorCommand struct {
	timeout   time.Duration
	repair    bool
	catalogue bool
	json      bool
}

func doctorCommandLine(c console) *cobra.Command {
	d := &doctorCommand{}
	command := configured(c, &cobra.Command{Use: "doctor",
		Short: "Check the configuration, the database, the identity provider and each platform", Args: cobra.NoArgs,
		Example: "  eodispatch doctor --config broker.yaml",
	}, func(settings *config.Config, _ []string) error { return d.run(c, settings) })
	command.Flags().DurationVar(&d.timeout, "timeout", 15*time.Second, "time limit of each check")
	command.Flags().BoolVar(&d.repair, "repair", false,
		"correct counts of jobs in the database that differ from the jobs; on PostgreSQL brokers may run")
	command.Flags().BoolVar(&d.catalogue, "catalogue", false,
		"list the services of the catalogue, and the records that are left out with the reasons")
	command.Flags().BoolVar(&d.json, "json", false, "print JSON")
	return command
}

// check is one requirement to verify.
type check struct {
	name   string
	ask    func(context.Context) (unproven string, err error)
	advice string // what to do if the check fails
}

// withAdvice is an error with what to do about it, in place of the advice of the check.
type withAdvice struct {
	error
	advice string
}

func (e withAdvice) Unwrap() error { return e.error }

// withoutUnproven adapts a check that has no unverified part.
func withoutUnproven(ask func(context.Context) error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return "", ask(ctx) }
}

// finding is the result of a check: an error, or nil and the part that could not be verified.
type finding struct {
	name, advice string
	unproven     string
	err          error
}

// row returns the finding's row of the table: result, check, detail.
func (f finding) row() [3]string {
	switch {
	case f.err == nil && f.unproven == "":
		return [3]string{"ok", f.name, "-"}
	case f.err == nil:
		return [3]string{"ok", f.name, "not checked: " + f.unproven + "; " + f.advice}
	}
	return [3]string{"FAIL", f.name, strings.TrimSuffix(explained(f.err)+"; "+f.advice, "; ")}
}

// run makes all checks concurrently and prints a row for each, in order.
func (d *doctorCommand) run(c console, settings *config.Config) error {
	ctx, stop := c.signals(context.Background())
	defer stop()
	if d.catalogue {
		return listCatalogue(ctx, settings, clean{c.out})
	}
	checks, err := checksOf(settings)
	if err != nil {
		return err
	}
	if err := store.CheckExists(settings.Database.Reveal()); err != nil {
		settings.Notes = append(settings.Notes, dispatch.TextFor(err)+" It is made now.")
	}
	findings := append([]finding{{name: "configuration"}}, diagnose(ctx, checks, d.timeout)...)
	findings = append(findings, d.counts(ctx, settings))
	db, err := openToRead(ctx, settings)
	if err == nil {
		defer db.Close()
	}
	findings = append(findings, agedFinding(ctx, db, err, retentionOf(settings), d.timeout))
	if err := d.print(c.out, settings.Notes, findings, notesOn(ctx, db, settings)); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return f.err != nil }) {
		return errSaid
	}
	return nil
}

// notesOn returns notes on a database; none on one that cannot be opened, which another check reports. Brokers may be
// using it.
func notesOn(ctx context.Context, db *store.Store, settings *config.Config) []string {
	if db == nil {
		return nil
	}
	return slices.Concat(lossesOf(ctx, db, settings.Direct == ""), unrecognized(ctx, db), inNeed(ctx, db),
		hooksInNeed(ctx, db))
}

// print prints notes about the settings, findings, and notes about the database, as a table or in JSON.
func (d *doctorCommand) print(out io.Writer, before []string, findings []finding, after []string) error {
	if d.json {
		return printFindings(out, findings, slices.Concat(before, after))
	}
	rows := [][3]string{{"RESULT", "CHECK", "DETAIL"}}
	for _, note := range before {
		rows = append(rows, [3]string{"note", "configuration", note})
	}
	for _, f := range findings {
		rows = append(rows, f.row())
	}
	for _, note := range after {
		rows = append(rows, [3]string{"note", "database", note})
	}
	w := tabwriter.NewWriter(clean{out}, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r[:], "\t"))
	}
	return w.Flush()
}

// diagnose makes all checks concurrently, each limited to within.
func diagnose(ctx context.Context, checks []check, within time.Duration) []finding {
	findings := make([]finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			findings[i] = finding{name: c.name, advice: c.advice}
			findings[i].unproven, findings[i].err = c.ask(ctx)
			if own, advised := errors.AsType[withAdvice](findings[i].err); advised {
				findings[i].advice = own.advice
			}
		})
	}
	all.Wait()
	return findings
}

// explained formats an error in one line for an operator: what happened, and the cause if it is known. Of several
// errors it explains each.
func explained(err error) string {
	if advised, ok := err.(withAdvice); ok {
		err = advised.error
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, one := range several.Unwrap() {
			texts = append(texts, explained(one))
		}
		return strings.Join(texts, "; ")
	}
	text := err.Error()
	switch e, ok := errorOf(err); {
	case ok && e.Text != "":
		text = strings.TrimSuffix(e.Text, ".")
		if e.Err != nil {
			text += " (" + e.Err.Error() + ")"
		}
	case ok && e == err && e.Err != nil:
		text = e.Err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}

// checksOf lists the checks for a broker with these settings.
func checksOf(settings *config.Config) ([]check, error) {
	providers := verifiersOf(settings)
	verifiers, err := identity.NewVerifiers(providers)
	if err != nil {
		return nil, err
	}
	backends := platforms(settings, nil)
	tokens, err := identity.NewTokens(tokensOf(settings, backends, nil, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	checks := []check{{
		name: "database", ask: func(ctx context.Context) (string, error) { return askDatabase(ctx, settings) },
		advice: "stop it, or see the log of its start",
	}}
	for _, p := range providers {
		checks = append(checks, check{name: "identity provider " + p.Issuer,
			ask:    withoutUnproven(verifiers[p.Issuer].Probe),
			advice: "check that `issuer` equals the issuer in its discovery document, and that this host can reach it"})
	}
	checks = append(checks, furtherExchanges(settings, tokens)...)
	for i, p := range settings.Platforms {
		b := backends[i]
		if e := p.Exchange; e != nil {
			checks = append(checks, check{
				name:   fmt.Sprintf("exchange for platform %s (%s)", b.Name, e.Driver),
				ask:    func(ctx context.Context) (string, error) { return tokens.Check(ctx, b.Name) },
				advice: "see docs/identity.md for the settings that this driver needs at the identity provider",
			})
		}
		if p.EitherProtocol && p.Protocol == config.OGCProcess {
			checks = append(checks, eitherCheck(backends[i-1], b, tokens))
		}
		if !p.EitherProtocol {
			checks = append(checks, platformCheck(b, tokens))
		}
	}
	checks = append(checks, diskChecks(settings)...)
	checks = append(checks, certificateCheck(settings), privateCheck(settings))
	checks = append(checks, hooksChecks(settings)...)
	if settings.Traces.Endpoint != "" {
		checks = append(checks, tracesCheck(settings))
	}
	if len(settings.ServiceRules) > 0 {
		checks = append(checks, check{name: "service rules",
			ask:    withoutUnproven(func(ctx context.Context) error { return askRules(ctx, settings) }),
			advice: "correct the ids in `service_rules`; `doctor --catalogue` lists the services"})
	}
	for _, source := range settings.Catalogue.Sources {
		checks = append(checks, check{
			name: "catalogue source " + source, ask: withoutUnproven(func(ctx context.Context) error {
				return askSource(ctx, settings, source)
			}),
			advice: "check the folder or URL in `catalogue.sources`; `doctor --catalogue` lists its services",
		})
	}
	return checks, nil
}

// platformCheck probes a platform.
func platformCheck(b *dispatch.Backend, tokens dispatch.Tokens) check {
	return check{
		name: fmt.Sprintf("platform %s (%s, access %s) %s", b.Name, b.Label, b.Access, b.Endpoint),
		ask:  withoutUnproven(func(ctx context.Context) error { return askPlatform(ctx, b, tokens) }),
		advice: "check `endpoint` and `protocol`, that this host can reach it and, with shared access, that it " +
			"accepts the tokens of `service_account`",
	}
}

// eitherCheck probes a platform that is configured without a protocol. It is right if it speaks one of the two.
func eitherCheck(one, other *dispatch.Backend, tokens dispatch.Tokens) check {
	return check{
		name: fmt.Sprintf("platform %s (%s or %s, access %s) %s", one.Name, one.Label, other.Label, one.Access,
			one.Endpoint),
		ask: func(ctx context.Context) (string, error) {
			var first, second error
			var both sync.WaitGroup
			both.Go(func() { first = askPlatform(ctx, one, tokens) })
			both.Go(func() { second = askPlatform(ctx, other, tokens) })
			both.Wait()
			switch {
			case first != nil && second != nil:
				return "", fmt.Errorf("%s: %s; %s: %s", one.Label, explained(first), other.Label, explained(second))
			case first != nil:
				return fmt.Sprintf("%s, since the platform answers as %s only", one.Label, other.Label), nil
			case second != nil:
				return fmt.Sprintf("%s, since the platform answers as %s only", other.Label, one.Label), nil
			}
			return "", nil
		},
		advice: "the platform must speak one of the protocols: check that this host can reach it and, with shared " +
			"access, that it accepts the tokens of the service account",
	}
}

// furtherExchanges lists the checks of the exchanges for users of further issuers.
func furtherExchanges(settings *config.Config, tokens *identity.Tokens) (checks []check) {
	for _, i := range settings.Issuers {
		for _, p := range i.Platforms {
			if p.Exchange == nil {
				continue
			}
			checks = append(checks, check{
				name: fmt.Sprintf("exchange for platform %s (%s) of %s", p.Name, p.Exchange.Driver, i.Issuer),
				ask: func(ctx context.Context) (string, error) {
					return tokens.OfIssuer(i.Issuer).Check(ctx, p.Name)
				},
				advice: "see docs/identity.md for the settings that this driver needs at the identity provider",
			})
		}
	}
	return checks
}

// askDatabase opens the database, which also migrates it, and tries the vault's keys. An SQLite file that a broker has
// open counts as working.
func askDatabase(ctx context.Context, settings *config.Config) (unproven string, err error) {
	s, err := openDatabase(ctx, settings)
	advice := "" // the error itself says what to do
	if allowsSeveral(settings.Database.Reveal()) && !dispatch.Is(err, dispatch.Misconfigured) {
		advice = "check that the server is running, and that the user in `database` may create tables"
	}
	switch {
	case dispatch.Is(err, dispatch.Conflict):
		return "the keys of the vault, because a broker uses the file", nil
	case err != nil:
		return "", withAdvice{err, advice}
	}
	defer s.Close()
	ring, err := keyring(settings)
	if err == nil {
		err = identity.Readable(ctx, s, ring)
	}
	if silent := s.Ping(ctx); silent != nil {
		return "", withAdvice{silent, advice}
	}
	if err != nil {
		return "", withAdvice{error: err} // which says to put the key back
	}
	return "", nil
}

// askPlatform probes a platform with the token of its shared account. With access "user" no token is available here, so
// the platform is probed without one.
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
