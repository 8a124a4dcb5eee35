package broker_test

import (
	"context"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// private is a platform that describes its services to those who have signed in.
type private struct {
	*script
	seen map[dispatch.Secret]int // calls by token
}

func (p private) Parameters(_ context.Context, t dispatch.Token, _ dispatch.Service) ([]dispatch.Parameter, error) {
	p.seen[t.Secret]++
	if t.Secret == "" {
		return nil, failure(dispatch.SignInRequired)
	}
	return []dispatch.Parameter{{Name: "x"}}, nil
}

// TestParameters_StrangersSeeWhatIsPublic: for somebody who has not signed in, the broker uses no token, not even that
// of a shared account.
func TestParameters_StrangersSeeWhatIsPublic(t *testing.T) {
	for _, access := range []dispatch.Access{dispatch.AccessUser, dispatch.AccessShared} {
		p := private{&script{}, map[dispatch.Secret]int{}}
		with(t, access, p, func(t *testing.T, h *testBroker) {
			r := request("a")
			if got, err := h.Parameters(t.Context(), "", r.Service, r.Label); !dispatch.Is(err,
				dispatch.SignInRequired) || got != nil {
				t.Errorf("%s: a stranger gets %v, %v", access, got, err)
			}
			if len(p.seen) != 1 || p.seen[""] != 1 {
				t.Errorf("%s: calls %v", access, len(p.seen))
			}
			if got, err := h.Parameters(t.Context(), "ann", r.Service, r.Label); err != nil || len(got) != 1 {
				t.Errorf("%s: ann gets %v, %v", access, got, err)
			}
		})
	}
}
