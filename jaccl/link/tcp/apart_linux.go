package tcp

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// settled is how long a rank stays on the core that it has moved to. Looking takes less
// than a microsecond, moving some ten.
const settled = 2 * time.Millisecond

// apart moves the thread to another core if a peer of this host, which this rank waits
// for, has sent from this one: ranks that wait for each other by turns on one core are
// all runnable to the scheduler, which then finds no reason to part them, and take
// twice as long. The higher rank moves. The thread may run on all of its cores as before.
func (p *poller) apart(active []*peer, now time.Time) {
	if now.Sub(p.looked) < settled {
		return
	}
	p.looked = now
	for _, peer := range active {
		if !peer.near || !peer.receiving() || p.fds[peer.rank] < 0 {
			continue
		}
		cpu, err := unix.GetsockoptInt(p.fds[peer.rank], unix.SOL_SOCKET, unix.SO_INCOMING_CPU)
		if err == nil && cpu >= 0 && cpu == current() {
			leave(cpu)
			return
		}
	}
}

// current returns the core of the thread, or -1.
func current() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}

// leave moves the thread away from a core, if it may run on others.
func leave(cpu int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || !all.IsSet(cpu) || all.Count() < 2 {
		return
	}
	others := all
	others.Clear(cpu)
	if unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &all)
	}
}
