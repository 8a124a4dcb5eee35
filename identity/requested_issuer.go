package identity

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
)

// requestedIssuer is Keycloak's legacy token exchange: Keycloak keeps a token of the user's linked account and gives it
// out. It does not ask whom the user's token is for, so only verified ones are sent.
type requestedIssuer struct {
	Client exchangeClient
	Alias  string
}

func newRequestedIssuer(c exchangeClient, e Exchange) (exchanger, error) {
	if e.Alias == "" {
		return nil, errors.New("alias is missing")
	}
	return &requestedIssuer{c, e.Alias}, nil
}

func (r *requestedIssuer) exchange(ctx context.Context, subject dispatch.Secret) (issued, error) {
	address, err := tokenEndpoint(ctx, r.Client.provider)
	if err != nil {
		return issued{}, err
	}
	a, err := r.Client.provider.client.post(ctx, address, url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"client_id":          {r.Client.ID},
		"client_secret":      {r.Client.Secret.Reveal()},
		"subject_token":      {subject.Reveal()},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"requested_issuer":   {r.Alias},
	})
	switch {
	case err != nil:
		r.Client.provider.forget() // it may have moved
		return issued{}, unavailable(err)
	case a.status != http.StatusOK:
		return issued{}, requestedIssuerError(a, a.refusal(subject, r.Client.Secret))
	}
	return r.Client.provider.client.readIssued(a)
}

// requestedIssuerError classes what Keycloak 26 answers. Status 400 alone says nothing: it stands for what the user must
// mend, and for what the operator must.
func requestedIssuerError(a answer, r refusal) error {
	switch {
	case a.status != http.StatusBadRequest:
	case r.Code == "not_linked":
		return errNotLinked
	case r.Code == "token_expired":
		return errLinkEnded
	case r == refusal{"invalid_request", "Invalid token"}:
		return errSubjectEnded
	}
	return a.failed("identity.Exchange", r)
}
