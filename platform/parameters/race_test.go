//go:build race

package parameters_test

func init() { smaller = 20 }
