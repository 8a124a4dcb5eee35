//go:build race

package ogcapi

import "time"

func init() { smaller, mostCPU = 8, 10*time.Second }
