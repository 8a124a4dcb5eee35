//go:build race

package ogcapi

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

func init() {
	smaller, mostCPU = 4, 10*time.Second
	bounds.PagesBytes.Most /= 8
}
