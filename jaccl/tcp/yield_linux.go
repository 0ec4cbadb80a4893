package tcp

import "golang.org/x/sys/unix"

// yield lets another thread run: the peer, where there are more ranks than cores.
func yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
