//go:build race

package openeo_test

import (
	"time"

	"github.com/eodispatch/eodispatch/budget"
)

func init() {
	smaller, mostCPU = 8, 10*time.Second
	budget.PagesBytes.Most /= 8
}
