package wait

import "golang.org/x/sys/unix"

// Yield lets another thread have the processor: the peer, where there are more ranks
// than cores. It keeps the scheduler of Go out, which would look for other work at
// every call.
func Yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
