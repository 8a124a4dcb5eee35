//go:build unix

package store

import (
	"os"
	"syscall"
)

// hasHardLinks reports whether a file has several names.
func hasHardLinks(file string) bool {
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && stat.Nlink > 1
}
