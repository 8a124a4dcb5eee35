package keycloak

import "syscall"

// dyingWithUs gives the server a process group, so that java ends with its script, and ends it even when the tests are
// killed.
func dyingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
