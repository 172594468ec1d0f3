//go:build unix && !linux

package drill

import "syscall"

// childAttr puts a child in a process group of its own. When we die, the end
// of its standard input tells it to end.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
