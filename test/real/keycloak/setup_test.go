package keycloak

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// TestSetUp_AsWritten follows the steps of docs/identity.md with new clients and identity providers, which have only
// the settings that are written there. Each driver reports Misconfigured before its last step, and works after it.
func TestSetUp_AsWritten(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "ines"))
	must(t, s.AddUser("platform", "ines-p"))
	create := func(realm, kind string, is Object) {
		t.Helper()
		must(t, s.Admin("POST", realm+"/"+kind, is, nil))
		if name, ok := is["alias"]; ok {
			t.Cleanup(func() { must(t, s.Admin("DELETE", fmt.Sprint(realm, "/", kind, "/", name), nil, nil)) })
		}
	}
	client := func(realm, name string, more Object) {
		t.Helper()
		is := Object{"clientId": name, "secret": name + "-secret", "enabled": true, "publicClient": false,
			"standardFlowEnabled":       false,
			"directAccessGrantsEnabled": false, "serviceAccountsEnabled": false, "attributes": Object{}}
		for key, value := range more {
			is[key] = value
		}
		create(realm, "clients", is)
	}
	audience := func(name, audience string) {
		t.Helper()
		id, err := s.id("apex", "clients", "clientId", name)
		must(t, err)
		create("apex", "clients/"+id+"/protocol-mappers/models", Object{"name": audience, "protocol": "openid-connect",
			"protocolMapper": "oidc-audience-mapper", "config": Object{"included.client.audience": audience,
				"access.token.claim": "true"}})
	}
	provider := func(realm, alias, issuer string, settings, config Object) {
		t.Helper()
		var found Object
		must(t, s.Admin("POST", realm+"/identity-provider/import-config",
			Object{"providerId": "oidc", "fromUrl": issuer + "/.well-known/openid-configuration"}, &found))
		is := Object{"alias": alias, "providerId": "oidc", "enabled": true, "config": found}
		for key, value := range settings {
			is[key] = value
		}
		for key, value := range config {
			found[key] = value
		}
		create(realm, "identity-provider/instances", is)
	}
	of := func(driver string) identity.TokensConfig {
		c := settings(driver)
		c.ClientID, c.ClientSecret = "steps-api", "steps-api-secret"
		if c.Platforms[0].Exchange.Alias != "" {
			c.Platforms[0].Exchange.Alias = "steps"
		}
		if driver == "jwt-grant" {
			c.Platforms[0].Exchange.ClientID, c.Platforms[0].Exchange.ClientSecret = "steps-service",
				"steps-service-secret"
		}
		return c
	}
	var token dispatch.Secret
	fails := func(driver string) {
		t.Helper()
		_, err := get(t, of(driver), token)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	}
	works := func(driver string) {
		t.Helper()
		tokens, err := identity.NewTokens(of(driver))
		must(t, err)
		if unproven, err := tokens.Check(t.Context(), "P"); err != nil || unproven != "" {
			t.Errorf("%s: Check returned %q %v", driver, unproven, err)
		}
		if _, err := get(t, of(driver), token); err != nil {
			t.Errorf("%s: %v", driver, err)
		}
	}

	// all drivers
	client("apex", "steps-api", Object{"serviceAccountsEnabled": true})
	client("apex", "steps-portal", Object{"publicClient": true, "standardFlowEnabled": true,
		"directAccessGrantsEnabled": true, "redirectUris": []string{Callback}})
	audience("steps-portal", "steps-api")
	token = signIn(t, s, "ines", "steps-portal")

	// keycloak-broker
	client("platform", "steps-broker", Object{"standardFlowEnabled": true, "redirectUris": []string{Apex +
		"/broker/steps/endpoint"}})
	provider("apex", "steps", Platform, Object{"storeToken": true},
		Object{"clientId": "steps-broker", "clientSecret": "steps-broker-secret",
			"clientAuthMethod": "client_secret_post", "defaultScope": "openid offline_access"})
	address, _ := AuthorizationURL("steps-portal", url.Values{"kc_action": {"idp_link:steps"}})
	said, err := (&Browser{Logins: map[string]string{"apex": "ines", "platform": "ines-p"}}).Visit(address)
	if must(t, err); said.Get("kc_action_status") != "success" {
		t.Fatalf("the account was not linked: %v", said)
	}
	fails("keycloak-broker")
	must(t, s.Client("steps-api", Object{"external.token.enabled": "true", "external.token.idp": "steps"}, nil))
	works("keycloak-broker")

	// keycloak-requested-issuer
	fails("keycloak-requested-issuer")
	must(t, s.allowLegacyExchange("steps", "steps-api"))
	works("keycloak-requested-issuer")

	// token-exchange
	must(t, s.Client("steps-api", Object{"standard.token.exchange.enabled": "true"}, nil))
	fails("token-exchange")
	audience("steps-api", "platform-api")
	works("token-exchange")

	// jwt-grant; the realm apex already contains a client whose id is the platform's issuer
	audience("steps-api", Platform)
	grants := func(alias, on string) error { // only one provider of an issuer may have it enabled
		return s.change("platform/identity-provider/instances/"+alias,
			func(is Object) { is["config"].(Object)["jwtAuthorizationGrantEnabled"] = on })
	}
	must(t, grants("apex", "false"))
	t.Cleanup(func() { must(t, grants("apex", "true")) })
	provider("platform", "steps-apex", Apex, Object{}, Object{"clientId": "any", "clientSecret": "any",
		"jwtAuthorizationGrantEnabled": "true"})
	must(t, s.LinkByAdmin("platform", "ines-p", "steps-apex", "apex", "ines"))
	client("platform", "steps-service", nil)
	fails("jwt-grant")
	id, err := s.id("platform", "clients", "clientId", "steps-service")
	must(t, err)
	must(t, s.change("platform/clients/"+id, func(is Object) {
		is["attributes"] = Object{"oauth2.jwt.authorization.grant.enabled": "true",
			"oauth2.jwt.authorization.grant.idp": "steps-apex"}
	}))
	works("jwt-grant")

	// permissions of users who are signed out, and the link page
	c := vaulted(t, of("keycloak-broker"))
	c.SessionGrants = true
	tokens, err := identity.NewTokens(c)
	must(t, err)
	issuer := dispatch.UserID(Apex + " ")
	user, err := s.id("apex", "users", "username", "ines")
	must(t, err)
	ines := issuer + dispatch.UserID(user)
	account := dispatch.Account("P/" + string(ines))
	must(t, s.Client("steps-api", Object{"standard.token.exchange.enableRefreshRequestedTokenType": "SAME_SESSION"},
		nil))
	tokens.StoreUserToken(t.Context(), ines, token, time.Now().Add(time.Minute))
	_, err = tokens.Token(t.Context(), account)
	must(t, err)
	kinds := func(want dispatch.GrantKind) {
		t.Helper()
		if grants, err := tokens.Grants(t.Context(), ines); err != nil || len(grants) != 1 || grants[0].Kind != want {
			t.Errorf("want one grant of kind %s: %+v %v", want, grants, err)
		}
	}
	kinds(dispatch.SessionGrant)
	must(t, s.Client("steps-api", nil, Object{"standardFlowEnabled": true, "redirectUris": []string{Callback}}))
	signIns := tokens.SignIns(Callback, c.Keys, c.Vault)
	for _, purpose := range []identity.Purpose{{Platform: "P"}, {Away: true, User: ines}} {
		address, remember, err := signIns.Begin(t.Context(), purpose)
		must(t, err)
		query, err := (&Browser{Logins: map[string]string{"apex": "ines", "platform": "ines-p"}}).Visit(address)
		must(t, err)
		if arrived, err := signIns.Finish(t.Context(), query, remember); err != nil || arrived.User != ines {
			t.Errorf("sign-in for %+v: user %v, error %v", purpose, arrived.User, err)
		}
	}
	kinds(dispatch.OfflineGrant)
}
