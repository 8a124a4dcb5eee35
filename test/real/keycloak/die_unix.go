//go:build unix && !linux

package keycloak

import "syscall"

// dyingWithUs starts a process in its own group, so that its children (java, which a script starts) can be killed with
// it.
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
