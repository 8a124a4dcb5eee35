package postgres

import "syscall"

// dyingWithUs ends the server even if the tests are killed.
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} }
