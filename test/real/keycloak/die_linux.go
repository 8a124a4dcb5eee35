package keycloak

import "syscall"

// dyingWithUs gives a process its own group, so that its children (java, started by a script) can be ended with it, and ends it
// even if the tests are killed.
func dyingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
