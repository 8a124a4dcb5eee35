//go:build unix && !linux

package postgres

import "syscall"

func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
