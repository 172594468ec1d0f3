package drill

import "syscall"

// childAttr puts a child in a process group of its own, so that a key press
// at the terminal reaches only us, and lets the kernel kill it when we die.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
