package identity

import (
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	// Steps and bytes for each byte of a token, plus a constant: two to three times what the most expensive seed takes.
	stepsForAByte, stepsBesides = 12, 2_000
	bytesForAByte, bytesBesides = 300, 256 << 10
)

// FuzzCostOfTokens: verifying a token and looking up a claim takes steps (allocations as counted by the runtime) and
// memory in proportion to its length, whether it is signed or not, and no request to the provider after its keys are
// fetched.
func FuzzCostOfTokens(f *testing.F) {
	header := rs256.json()
	for _, payload := range costlyPayloads() {
		f.Add(header, payload, true)
		f.Add(header, payload, false)
		f.Add(payload, bearer(noon).json(), true)
	}
	p := newFakeProvider()
	v := verifierAt(f, p, noon, nil)
	if _, err := v.Verify(f.Context(), dispatch.Secret(rsToken(nil))); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, payload string, signed bool) {
		encode := base64.RawURLEncoding.EncodeToString
		token := encode([]byte(header)) + "." + encode([]byte(payload)) + ".AAAA"
		if signed {
			token = sign(header, payload, rsaKey())
		}
		if len(token) > MaxToken+1000 { // it is refused unread
			return
		}
		// what the first call of all takes
		_, _ = v.Verify(context.Background(), dispatch.Secret(strings.Repeat("x", 10)))
		asked := p.count(pathKeys) + p.count(pathDiscovery)
		steps, bytes := costOf(func() {
			_, _ = v.Verify(context.Background(), dispatch.Secret(token))
			Caller{Token: dispatch.Secret(token)}.Has("realm_access.roles", []string{"eo-users"})
		})
		if most := uint64(stepsForAByte*len(token) + stepsBesides); steps > most {
			t.Errorf("%d steps for %d bytes, more than %d", steps, len(token), most)
		}
		if most := uint64(bytesForAByte*len(token) + bytesBesides); bytes > most {
			t.Errorf("%d bytes of memory for %d bytes, more than %d", bytes, len(token), most)
		}
		if now := p.count(pathKeys) + p.count(pathDiscovery); now > asked+1 || now > 20 {
			t.Errorf("the provider was asked %d times", now)
		}
	})
}

// costOf returns the number and the bytes of the allocations of f.
func costOf(f func()) (steps, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// costlyPayloads are as large as tokens may be.
func costlyPayloads() []string {
	const room = 5_500 // bytes, of which a token is made that is just short enough
	var members strings.Builder
	for i := 0; members.Len() < room-200; i++ {
		fmt.Fprintf(&members, `"%x":0,`, i)
	}
	many := func(piece string) string { return strings.Repeat(piece, (room-200)/len(piece)) }
	claims := func(more string) string { return strings.TrimSuffix(bearer(noon).json(), "}") + "," + more + "}" }
	return []string{
		bearer(noon).json(),
		claims(`"deep":` + strings.Repeat(`[`, 2_500) + strings.Repeat(`]`, 2_500)),
		claims(`"deep":` + strings.Repeat(`{"a":`, 700) + `1` + strings.Repeat(`}`, 700)),
		claims(members.String() + `"z":0`),
		claims(`"list":[` + many(`0,`) + `0]`),
		claims(`"list":[` + many(`{},`) + `{}]`),
		claims(`"number":` + many(`9`)),
		claims(`"number":1e999999999`),
		claims(`"text":"` + many(`\u0000`) + `"`),
		claims(`"aud":[` + many(`"a",`) + `"a"]`),
		claims(`"realm_access":{"roles":[` + many(`"a",`) + `"a"]}`),
		claims(`"name":"` + many(`\ud800`) + `"`),
		strings.Replace(bearer(noon).json(), `"exp":`, `"exp":`+many(`0`), 1),
		strings.Repeat(`{"realm_access":`, 300) + `1` + strings.Repeat(`}`, 300),
		`{"iss":` + many(`[`),
	}
}
