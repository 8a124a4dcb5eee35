package identity

import (
	"context"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// passthrough sends the user's own token to the platform. It is only permitted for platforms that use the issuer of the
// broker's users.
type passthrough struct{}

func newPassthrough(c exchangeClient, p Platform) (exchanger, error) {
	if p.Issuer == "" || p.Issuer != c.provider.issuer {
		return nil, errors.New("the platform's issuer must be identity.issuer: nobody else may see users' tokens")
	}
	return passthrough{}, nil
}

func (passthrough) exchange(_ context.Context, subject dispatch.Secret) (issued, error) {
	issuer, expires := selfDescription(subject.Reveal())
	return issued{subject, issuer, expires}, nil
}

func (passthrough) check(context.Context) (string, error) { return "", nil }
