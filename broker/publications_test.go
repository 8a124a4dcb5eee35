package broker_test

import (
	"context"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Published shows a document to users only.
func (p private) Published(_ context.Context, t dispatch.Token, _ string) (dispatch.Publication, error) {
	if p.seen[t.Secret]++; t.Secret == "" {
		return dispatch.Publication{}, failure(dispatch.SignInRequired)
	}
	return dispatch.Publication{Parts: [][]byte{[]byte("{}")}}, nil
}

// Validate is for users only.
func (p private) Validate(_ context.Context, t dispatch.Token, _ []byte) ([]byte, error) {
	if p.seen[t.Secret]++; t.Secret == "" {
		return nil, failure(dispatch.SignInRequired)
	}
	return []byte("{}"), nil
}

// TestPublished_StrangersSeeWhatIsPublic: for somebody who has not signed in, the broker uses no token, not even that
// of a shared account.
func TestPublished_StrangersSeeWhatIsPublic(t *testing.T) {
	for _, access := range []dispatch.Access{dispatch.AccessUser, dispatch.AccessShared} {
		p := private{&script{}, map[dispatch.Secret]int{}}
		with(t, access, p, func(t *testing.T, h *testBroker) {
			for what, ask := range map[string]func(dispatch.UserID) error{
				"published": func(u dispatch.UserID) error {
					_, err := h.Published(t.Context(), u, h.Backends[0].Name, "/collections")
					return err
				},
				"validated": func(u dispatch.UserID) error {
					_, err := h.Validate(t.Context(), u, h.Backends[0].Name, []byte("{}"))
					return err
				},
			} {
				clear(p.seen)
				if err := ask(""); !dispatch.Is(err, dispatch.SignInRequired) || len(p.seen) != 1 || p.seen[""] != 1 {
					t.Errorf("%s, %s: a stranger gets %v, calls with %d tokens", access, what, err, len(p.seen))
				}
				if err := ask("ann"); err != nil {
					t.Errorf("%s, %s: ann gets %v", access, what, err)
				}
			}
		})
	}
}

func TestPublished_OfNoPlatform(t *testing.T) {
	with(t, dispatch.AccessOpen, &script{}, func(t *testing.T, h *testBroker) {
		if _, err := h.Published(t.Context(), "ann", "elsewhere", "/"); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("%v", err)
		}
		if _, err := h.Published(t.Context(), "ann", h.Backends[0].Name, "/"); !dispatch.Is(err, dispatch.Unsupported) {
			t.Errorf("%v", err)
		}
	})
}
