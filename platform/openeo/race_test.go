//go:build race

package openeo_test

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

func init() {
	smaller, mostCPU = 8, 10*time.Second
	bounds.PagesBytes.Most /= 8
}
