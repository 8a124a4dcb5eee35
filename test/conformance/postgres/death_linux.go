package postgres

import "syscall"

// dyingWithUs ends the server even when the tests are killed.
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} }
