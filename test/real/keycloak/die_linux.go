package keycloak

import "syscall"

// dyingWithUs gives a process a group, so that its children can be ended with it (java with its script), and ends it even when the
// tests are killed.
func dyingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
