package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	minFetch     = 10 * time.Second // minimum time between two fetches, whatever causes them
	renewKeys    = 5 * time.Minute  // keys older than this are renewed while they are used
	maxKeyAge    = 10 * time.Minute // a withdrawn key is not accepted longer, if the provider responds
	maxKeyStale  = time.Hour        // no key is accepted longer, even if the provider does not respond
	fetchTimeout = 2 * readTimeout  // for discovery and keys
)

var errNoSuchKey = errors.New("no such key")

// keySet holds the public keys of one issuer. Requests can cause at most one fetch in minFetch.
type keySet struct {
	source *provider
	now    func() time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey // nil: no keys were fetched yet
	raw     []byte            // the document that keys was parsed from
	version int               // changes with keys
	fetched time.Time         // when the provider last confirmed keys
	tried   time.Time         // when a fetch last began
	failure error             // of the last fetch
	fetch   chan struct{}     // closed when the running fetch has ended; nil: none runs
}

func newKeySet(source *provider, now func() time.Time) *keySet {
	return &keySet{source: source, now: now}
}

// find returns the key for a token and the version of the key set. It fetches the keys once for an unknown kid, within
// the bounds above; then it returns errNoSuchKey.
func (s *keySet) find(ctx context.Context, kid, alg string) (crypto.PublicKey, int, error) {
	if _, err := s.fresh(ctx); err != nil {
		return nil, 0, err
	}
	key, version, ok := s.lookup(kid, alg)
	if ok {
		return key, version, nil
	}
	s.mu.Lock()
	wait := s.refresh()
	s.mu.Unlock()
	if err := await(ctx, wait); err != nil {
		return nil, 0, err
	}
	if key, version, ok = s.lookup(kid, alg); !ok {
		return nil, 0, errNoSuchKey
	}
	return key, version, nil
}

// verify verifies the signature of a token, its issuer, and what c does not skip. It returns the token, its payload,
// and the version of the key set.
func (s *keySet) verify(ctx context.Context, token dispatch.Secret, h header, c oidc.Config) (good *oidc.IDToken,
	payload json.RawMessage, version int, err error) {
	key, version, err := s.find(ctx, h.kid, h.alg)
	if err != nil {
		return nil, nil, 0, err
	}
	c.SupportedSigningAlgs = algorithms
	known := &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}
	if good, err = oidc.NewVerifier(s.source.issuer, known, &c).Verify(ctx, token.Reveal()); err == nil {
		err = good.Claims(&payload)
	}
	return good, payload, version, err
}

// fresh renews keys that are old, or whose last renewal failed, and returns their version. It waits for the fetch only
// if the keys are too old to be used, or if they should be renewed and the provider responded last time.
func (s *keySet) fresh(ctx context.Context) (int, error) {
	s.mu.Lock()
	age, usable := s.age()
	var wait <-chan struct{}
	if !usable || age >= renewKeys || s.failure != nil {
		wait = s.refresh()
	}
	if usable && (age < maxKeyAge || s.failure != nil) {
		wait = nil
	}
	s.mu.Unlock()
	if err := await(ctx, wait); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, usable := s.age(); !usable {
		return 0, &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Verify", RetryAfter: minFetch,
			Text: "The token cannot be verified because the identity provider does not respond. Try again in a few " +
				"seconds.",
			Err: s.failure}
	}
	return s.version, nil
}

// age returns the age of the keys and whether they may be used. s.mu is held.
func (s *keySet) age() (time.Duration, bool) {
	age := s.now().Sub(s.fetched)
	return age, s.keys != nil && age < maxKeyStale
}

// refresh starts a fetch or joins the running one; nil if one began less than minFetch ago. s.mu is held. A fetch does
// not end with the request that caused it, because others wait for it.
func (s *keySet) refresh() <-chan struct{} {
	if s.fetch != nil {
		return s.fetch
	}
	now := s.now()
	if !s.tried.IsZero() && now.Sub(s.tried) < minFetch {
		return nil
	}
	s.tried, s.fetch = now, make(chan struct{})
	go s.update()
	return s.fetch
}

func (s *keySet) update() {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	raw, keys, err := s.load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(s.fetch)
	s.fetch, s.failure = nil, err
	if err != nil {
		s.source.forget()
		return
	}
	s.fetched = s.now()
	if !bytes.Equal(raw, s.raw) {
		s.raw, s.keys, s.version = raw, keys, s.version+1
	}
}

func (s *keySet) load(ctx context.Context) (raw json.RawMessage, keys []jose.JSONWebKey, err error) {
	defer recovered(&err) // waiting requests are answered
	at, err := s.source.endpoints(ctx)
	if err != nil {
		return nil, nil, err
	}
	var set struct {
		Keys json.RawMessage `json:"keys"`
	}
	if err := s.source.client.getJSON(ctx, at.Keys, &set); err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	keys, err = parseKeys(set.Keys)
	return set.Keys, keys, err
}

// parseKeys returns the keys that verify signatures. It skips others, including those of unknown types (RFC 7517,
// section 5).
func parseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, errors.New("keys: not a key set")
	}
	var keys []jose.JSONWebKey
	for _, one := range all {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(one) == nil && verifies(key) {
			keys = append(keys, key)
		}
	}
	if keys == nil {
		return nil, errors.New("keys: none that verifies a signature")
	}
	return keys, nil
}

func verifies(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// lookup returns the key with an id. For a token without a kid it returns the key if there is only one.
func (s *keySet) lookup(kid, alg string) (crypto.PublicKey, int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys {
		named := key.KeyID == kid && kid != "" || kid == "" && len(s.keys) == 1
		if named && (key.Algorithm == "" || key.Algorithm == alg) {
			return key.Key, s.version, true
		}
	}
	return nil, 0, false
}

// await waits for an event. A nil event has already happened.
func await(ctx context.Context, event <-chan struct{}) error {
	if event == nil {
		return nil
	}
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity",
			Text: "The identity provider did not respond in time. Try again in a few seconds.", Err: ctx.Err()}
	}
}
