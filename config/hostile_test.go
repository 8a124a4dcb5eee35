package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Values that pass as numbers, durations and texts, and that the program cannot work with or that do not do what their
// author expects.
func TestLoad_RefusesValuesThatDoNotWork(t *testing.T) {
	for name, c := range map[string]struct{ add, want string }{
		"number that overflows": {"limits: {streams: 9223372036854775807}",
			"limits.streams: write a whole number from 1 to 1000000000"},
		"number of no type": {"limits: {streams: 99999999999999999999}",
			"limits.streams: write a whole number from 1 to 1000000000"},
		"requests that overflow": {"  limits: {requests: 9223372036854775807}",
			"platforms[0].limits.requests: write a whole number from 1 to 1000000000"},
		"duration that overflows": {"shutdown_grace: 2562047h",
			"shutdown_grace: write a duration such as 500ms, 5m or 720h, from 1ms to 87600h"},
		"duration of a nanosecond": {"freshness: 1ns",
			"freshness: write a duration such as 500ms, 5m or 720h, from 1ms to 87600h"},
		"size that overflows": {"limits: {body: 9223372036854775807}",
			"limits.body: write a size such as 512KiB or 10MiB"},
		"no port":             {"listen: '127.0.0.1:'", "listen: write HOST:PORT"},
		"a port that is none": {"listen: 127.0.0.1:99999", "listen: write HOST:PORT"},
		"audience, empty":     {"  limits: {jobs: 1}", "identity.audience: must not contain an empty text"},
		"element, null": {"trusted_proxies: [~]",
			"trusted_proxies[0]: the element is empty: write a value or remove it"},
		"log level": {"log: {level: info+99999999999999999999}", "log.level: write debug, info, warn or error"},
		"proxies, IPv4 written as IPv6": {"trusted_proxies: ['::ffff:10.0.0.0/104']",
			"trusted_proxies[0]: write a network such as 10.0.0.0/8"},
	} {
		text := minimal
		if strings.HasPrefix(c.add, "  ") {
			text = strings.Replace(text, "access: open", "access: open,"+c.add, 1)
			text = strings.Replace(text, ",  limits", ", limits", 1)
		} else {
			text += c.add + "\n"
		}
		if name == "audience, empty" {
			text = strings.Replace(text, "client_id: api", "client_id: api, audience: ['']", 1)
		}
		_, err := load("x.yaml", []byte(text), nil)
		faults, ok := errors.AsType[Faults](err)
		if !ok || !slices.ContainsFunc(faults, func(f Fault) bool { return strings.Contains(f.String(), c.want) }) ||
			len(faults) != 1 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// An element that is null has one fault, not one for each key that it lacks.
func TestLoad_NullElement(t *testing.T) {
	_, err := load("x.yaml", []byte("identity: {issuer: https://auth.example.org, client_id: api}\nplatforms: "+
		"[null]\n"), nil)
	if faults, _ := errors.AsType[Faults](err); len(faults) != 1 || faults[0].Key != "platforms[0]" {
		t.Errorf("%v", err)
	}
}

// Values that hardly mean what they do: every client may choose its address, or an origin that no browser sends.
func TestLoad_OddListsAreNoted(t *testing.T) {
	for text, want := range map[string]string{
		"trusted_proxies: [0.0.0.0/0]": "trusted_proxies: 0.0.0.0/0 trusts everybody",
		"trusted_proxies: ['::/0']":    "trusted_proxies: ::/0 trusts everybody",
		"cors: {allowed_origins: ['https://*.example.org']}": "cors.allowed_origins[0]: https://*.example.org " +
			"matches no page",
		"cors: {allowed_origins: ['*', https://Portal.example.org]}": "cors.allowed_origins[1]: " +
			"https://Portal.example.org matches no page",
	} {
		c, err := load("x.yaml", []byte(minimal+text+"\n"), nil)
		if err != nil || !slices.ContainsFunc(c.Notes,
			func(note string) bool { return strings.HasPrefix(note, want) }) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Faults do not repeat what may be a secret in the wrong place: behind an asterisk, which YAML takes for an alias, or
// where the kind of a database is expected.
func TestLoad_FaultsContainNoMisplacedSecret(t *testing.T) {
	for name, text := range map[string]string{
		"alias":          strings.Replace(minimal, "client_id: api", "client_id: api, client_secret: *hunter2", 1),
		"database":       minimal + "database: hunter2:5432\n",
		"database, long": minimal + "database: hunter2://u@h/n\n",
	} {
		_, err := load("x.yaml", []byte(text), nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Reading a secret ends, whatever file its key names.
func TestLoad_SecretFilesAreBounded(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := load("x.yaml", []byte(strings.Replace(minimal, "client_id: api", "client_id: api, client_secret: 'file:"+
		large+"'", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), "identity.client_secret: the file "+large+
		" is larger than 1048576 bytes: too large for a secret") {
		t.Errorf("%v", err)
	}
}
