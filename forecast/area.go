package forecast

import (
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TimesNear returns how long the runs over areas like km2 took.
func TimesNear(runs []dispatch.FinishedRun, km2 float64, send time.Duration) []time.Duration {
	near := slices.DeleteFunc(slices.Clone(runs), func(r dispatch.FinishedRun) bool { return !r.Near(km2) })
	return TimesOf(near, send)
}
