package program

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestVault_PrintsKeys(t *testing.T) {
	t.Parallel()
	code, printed := try(t, nil, "vault", "key")
	if _, err := identity.ParseKeyring(dispatch.Secret(printed)); code != exitDone || err != nil {
		t.Errorf("exit %d: %v", code, err)
	}
	if _, again := try(t, nil, "vault", "key"); again[strings.Index(again, ":"):] == printed[strings.Index(printed,
		":"):] {
		t.Error("two keys are the same")
	}
}

// TestVault_Rotation has a grant that no key opens: rotate must report it and keep it unchanged.
func TestVault_Rotation(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "d.db")
	environ := append(deployed(w, asUser, asUser), "EODISPATCH_DATABASE="+database)
	if code, printed := try(t, environ, "vault", "rotate"); code != exitUsage ||
		!strings.Contains(printed, "vault.keys: is missing") {
		t.Errorf("without keys: exit %d:\n%s", code, printed)
	}
	environ = append(environ, "EODISPATCH_VAULT_KEYS="+identity.NewKey(conformance.WallClock{}.Now()).Reveal())
	if code, printed := try(t, environ, "migrate"); code != exitDone {
		t.Fatalf("migrate: exit %d:\n%s", code, printed)
	}
	if code, printed := try(t, environ, "vault", "rotate"); code != exitDone ||
		printed != "encrypted with the first key: 0 grants, 0 revocations, 0 secrets of hooks, 0 shared tokens, 0 "+
			"sessions\n" {
		t.Errorf("an empty vault: exit %d:\n%s", code, printed)
	}
	kept, err := store.Open(t.Context(), database, conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	g := dispatch.Grant{ID: "g", Owner: "u", Issuer: "i", Kind: dispatch.OfflineGrant,
		Sealed: dispatch.Sealed{Key: "lost",
			Text: "x"}}
	if err := errors.Join(kept.KeepGrant(t.Context(), g), kept.Close()); err != nil {
		t.Fatal(err)
	}
	if code, printed := try(t, environ, "vault", "rotate"); code != exitFailed ||
		!strings.Contains(printed, `the vault's key "lost" is missing`) {
		t.Errorf("a lost key: exit %d:\n%s", code, printed)
	}
}

func TestVault_PostgreSQLNeedsKeysToActAsUsers(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	environ := append(deployed(w, asUser, asUser), "EODISPATCH_DATABASE="+postgres.Database(t))
	code, printed := try(t, environ, "serve")
	if code != exitUsage ||
		!strings.Contains(printed, "vault.keys: is missing: USER_CREDENTIALS in BACKENDS on PostgreSQL needs a key") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
}

// databases creates an empty database of each kind.
var databases = map[string]func(*testing.T) string{
	"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
	"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
}

// TestVault_KeysChangeWhileInUse: the real program has the permission of a user who is signed out, and jobs of theirs.
// Its key is replaced, and with only the new key the jobs continue. With a wrong key nothing is changed, nothing fails,
// and the log says what to do.
func TestVault_KeysChangeWhileInUse(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]dispatch.Secret{"SQLite": named("first"), "PostgreSQL": named("second")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			w := startWorld(t)
			w.OpenEO.SetLife(simulator.Life{Run: 2 * time.Second})
			address, tables := executable.FreeAddress(t), databases[name](t)
			first, second := named("first"), named("second")
			with := func(keys ...dispatch.Secret) []string {
				return append(acting(t, w, address, tables, keys...), "EODISPATCH_PLATFORMS_0_LIMITS_JOBS=1")
			}
			p := Start(t, with(first)...)
			alice := SignIn(t, w, p.Address)
			if page := agree(t, alice, "alice"); !strings.Contains(page, "Your jobs keep running after you sign out") {
				t.Fatalf("no permission:\n%s", page)
			}
			job, span := OpenEO(w), json.RawMessage(Span)
			job.Parameters = json.RawMessage(`{"spatial_extent": ` + Area + `}`)
			task, err := alice.Upscale(t.Context(), job, dispatch.Dimension{Name: "temporal_extent",
				Values: slices.Repeat([]json.RawMessage{span}, 40)})
			if err != nil {
				t.Fatal(err)
			}
			started(t, w, 1)
			p.Stop(t)
			before := w.OpenEO.Oracle.Sum().Starts
			w.IdP.Logout(simulator.BrokerRealm, "alice")

			if code, printed := try(t, with(second, first), "vault", "rotate"); code != exitDone ||
				!strings.HasPrefix(printed, "encrypted with the first key: 1 grants, ") {
				t.Errorf("exit %d:\n%s", code, printed)
			}
			if code, printed := try(t, with(second), "doctor"); code != exitDone || strings.Contains(printed, "FAIL") {
				t.Errorf("doctor: exit %d:\n%s", code, printed)
			}
			p = Start(t, with(second)...)
			started(t, w, before+1)
			p.Stop(t)
			before = w.OpenEO.Oracle.Sum().Starts
			keepsSecrets(t, p, tables, first.Reveal(), second.Reveal(), w.Credentials.BrokerSecret,
				w.Credentials.ServiceSecret)

			closedVault(t, with(wrong))
			if n := w.OpenEO.Oracle.Sum().Starts; n != before || n == 40 {
				t.Errorf("%d of 40 jobs were started, %d of them with a wrong key", n, n-before)
			}
			p = Start(t, with(second)...)
			if task, err = SignIn(t, w, p.Address).Task(t.Context(), task.ID); err != nil || task.Counts["failed"]+
				task.Counts["canceled"] > 0 {
				t.Errorf("%+v, %v", task, err)
			}
			p.Stop(t)
			if code, printed := try(t, with(named("third"), second), "vault", "rotate"); code != exitDone ||
				!strings.HasPrefix(printed, "encrypted with the first key: 1 grants, ") {
				t.Errorf("the permission was lost: exit %d:\n%s", code, printed)
			}
		})
	}
}

// closedVault runs a program, and doctor, with a key that does not open the vault.
func closedVault(t *testing.T, environ []string) {
	t.Helper()
	p := Start(t, environ...)
	for _, text := range []string{"vault keys are missing", `"msg":"account held"`} {
		select {
		case <-p.Log.Shows(text):
		case <-time.After(2 * time.Minute):
			t.Fatalf("it does not say %s:\n%s", text, p.Log)
		}
	}
	if slices.ContainsFunc(environ, func(e string) bool {
		return strings.HasPrefix(e, "EODISPATCH_DATABASE=sqlite:")
	}) {
		if _, printed := try(t, environ, "doctor"); !strings.Contains(printed, "not checked: the keys of the vault") {
			t.Errorf("doctor says of keys that it cannot try:\n%s", printed)
		}
	}
	p.Stop(t)
	for what, said := range map[string]string{"the log": strings.ReplaceAll(p.Log.String(), `\"`, `"`),
		"doctor": doctorSays(t, environ)} {
		if !strings.Contains(said, `the vault's key "second"`) || !strings.Contains(said, "into vault.keys") {
			t.Errorf("%s does not say what to do:\n%s", what, said)
		}
	}
}

func doctorSays(t *testing.T, environ []string) string {
	t.Helper()
	code, printed := try(t, environ, "doctor")
	if code != exitFailed || !strings.Contains(printed, "FAIL    database") {
		t.Errorf("exit %d", code)
	}
	return printed
}

// named returns a key with an id.
func named(name string) dispatch.Secret {
	_, key, _ := strings.Cut(identity.NewKey(time.Now()).Reveal(), ":")
	return dispatch.Secret(name + ":" + key)
}

// started waits until so many jobs were started at the openEO back-end.
func started(t *testing.T, w *simulator.World, n int) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(3 * time.Minute); w.OpenEO.Oracle.Sum().Starts < n; <-again.C {
		if time.Now().After(end) {
			t.Fatalf("%d of %d jobs were started", w.OpenEO.Oracle.Sum().Starts, n)
		}
	}
}
