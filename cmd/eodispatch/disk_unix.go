//go:build linux || darwin

package main

import "syscall"

// diskSpace returns how many bytes the disk of a folder has, and how many of them can be written; 0 if that is unknown.
func diskSpace(folder string) (all, free uint64) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return 0, 0
	}
	return disk.Blocks * uint64(disk.Bsize), disk.Bavail * uint64(disk.Bsize)
}
