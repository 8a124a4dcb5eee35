//go:build unix && !linux

package keycloak

import "syscall"

// dyingWithUs gives the server a process group, so that java ends with its script.
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
