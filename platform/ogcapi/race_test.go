//go:build race

package ogcapi

import "time"

func init() { smaller, mostCPU = 4, 10*time.Second }
