//go:build unix && !linux

package keycloak

import "syscall"

// dyingWithUs gives a process its own group, so that its children (java, started by a script) can be ended with it.
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
