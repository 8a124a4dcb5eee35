//go:build race

package ogcapi

import (
	"time"

	"github.com/eodispatch/eodispatch/budget"
)

func init() {
	smaller, mostCPU = 4, 10*time.Second
	budget.PagesBytes.Most /= 8
}
