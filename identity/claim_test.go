package identity

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestCaller_Has(t *testing.T) {
	caller := func(claims fields) Caller {
		return Caller{Token: dispatch.Secret(sign(`{"alg":"none"}`, claims.json(), nil) + "c2ln")}
	}
	good := caller(fields{"sub": "ann", "scope": "openid eo:run", "groups": []string{"/eo", "/all"},
		"name": "ann eo:run", "realm_access": fields{"roles": []string{"eo-users", "x"}},
		"resource_access":         fields{"eodispatch.api": fields{"roles": []string{"runner"}}},
		"https://a.example/roles": []string{"far"}, "level": 3, "none": nil, "mixed": []any{"a", 1}})
	for _, row := range []struct {
		claim, value string
		want         bool
	}{
		{"sub", "ann", true}, {"sub", "an", false}, {"sub", "", false},
		{"scope", "eo:run", true}, {"scope", "eo", false}, {"scope", "openid eo:run", false},
		{"name", "eo:run", false}, // only scope is a list of words: a name is whatever its owner likes
		{"groups", "/eo", true}, {"groups", "/e", false},
		{"realm_access.roles", "eo-users", true}, {"realm_access.roles", "admin", false},
		{"realm_access", "eo-users", false},
		{"resource_access.eodispatch.api.roles", "runner", true}, {"resource_access.eodispatch.roles", "runner", false},
		{"https://a.example/roles", "far", true},
		{"level", "3", false}, {"none", "", false}, {"mixed", "a", false}, {"missing", "", false}, {"", "", false},
		{"sub.x", "ann", false},
	} {
		if got := good.Has(row.claim, []string{"other", row.value}); got != row.want {
			t.Errorf("%s has %q: %v", row.claim, row.value, got)
		}
	}
	if good.Has("sub", nil) {
		t.Error("has one of nothing")
	}
	for _, nobody := range []Caller{{}, {Token: "no token"}, {User: "ann", Subject: "ann"}} {
		if nobody.Has("sub", []string{"ann", ""}) {
			t.Errorf("%+v has a claim", nobody)
		}
	}
}
