//go:build race

package openeo_test

import "time"

func init() { smaller, mostCPU = 8, 10*time.Second }
