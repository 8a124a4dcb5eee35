//go:build unix && !linux

package keycloak

import "syscall"

// dyingWithUs gives a process a group, so that its children can be ended with it (java with its script).
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
