package identity

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// keycloakBroker is Keycloak's Identity Brokering API, version 2: Keycloak stores a token of the user's linked account
// and returns it to clients that may have it, in exchange for a user's token that is issued for them.
type keycloakBroker struct {
	Client exchangeClient
	Alias  string
}

func newKeycloakBroker(c exchangeClient, p Platform) (exchanger, error) {
	if p.Exchange.Alias == "" {
		return nil, errors.New("alias is missing")
	}
	return &keycloakBroker{c, p.Exchange.Alias}, nil
}

// keycloakBrokerRefusals are the refusals of Keycloak 26.
var keycloakBrokerRefusals = refusals{
	{"invalid_request", "User not associated to identity provider"}: errNotLinked,
	{"not_linked", ""}: errNotLinked,
	// "No token stored.": Keycloak is not configured to store tokens
	{"token_expired", "linked token is expired"}:                           errLinkEnded,
	{"invalid_token", ""}:                                                  errSubjectEnded,
	{"invalid_request", "Failed to retrieve token from identity provider"}: errPassing,
}

func (k *keycloakBroker) exchange(ctx context.Context, subject dispatch.Secret) (issued, error) {
	address := strings.TrimSuffix(k.Client.provider.issuer, "/") + "/broker/" + url.PathEscape(k.Alias) + "/token"
	return k.Client.ask(ctx, address, url.Values{"token": {subject.Reveal()}}, keycloakBrokerRefusals, subject)
}

// check uses that Keycloak checks whether the client may ask before it checks the token.
func (k *keycloakBroker) check(ctx context.Context) (string, error) {
	return "", checkClientAccepted(ctx, k.exchange)
}
