//go:build race

package grid

func init() { smaller = 4 }
