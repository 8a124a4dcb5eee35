package cli

import (
	"testing"

	"github.com/eodispatch/eodispatch/client/wire"
)

func TestSpread_OneValueIsSaidOnce(t *testing.T) {
	for want, s := range map[string]wire.Spread{
		"2":                    {Low: 2, Likely: 2, High: 2},
		"1 to 3, likely 2":     {Low: 1, Likely: 2, High: 3},
		"2 to 2.001, likely 2": {Low: 2, Likely: 2, High: 2.001},
		"14376":                {Low: 14376.2, Likely: 14376.2, High: 14376.2},
	} {
		if got := spread(&s, amount); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
