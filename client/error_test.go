package client_test

import (
	"testing"

	"github.com/eodispatch/eodispatch/client"
)

// A refusal names each fault once, with its place where the message does not say the same.
func TestError_NamesEachFaultOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  client.Error
		want string
	}{
		{client.Error{Message: "The platform does not support it.",
			Faults: []client.Fault{{Loc: []any{"body", "format"},
				Msg: "The platform does not support it."}}}, "The platform does not support it."},
		{client.Error{Message: "The request is not valid.", Faults: []client.Fault{{Loc: []any{"body", "title"},
			Msg: "Field required"}, {Loc: []any{"body"}, Msg: "It is empty."}}},
			"The request is not valid.\n  title: Field required\n  It is empty."},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
