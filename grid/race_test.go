//go:build race

package grid

import "flag"

func init() {
	smaller = 20
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
