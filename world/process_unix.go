//go:build unix

package world

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// inheritedPipe opens a pipe inherited from the process that started this one. The
// descriptor stays open for the next Setup, but is not inherited by programs that this
// process starts.
func inheritedPipe(fd int) (*os.File, error) {
	own, err := inherited(fd, unix.S_IFIFO)
	if err != nil {
		return nil, err
	}
	// Close has to end a Read, which works only on a file that does not block. That flag
	// is shared by all processes that inherited the pipe, and any of them may clear it.
	// If the pipe can be opened anew, the new file has a flag of its own.
	if anew, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", own), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(own)
		own = anew
	} else if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return nil, err
	}
	return os.NewFile(uintptr(own), "launcher"), nil
}

// inheritedListener opens an inherited listener. It has to listen at the given address.
func inheritedListener(fd int, address string) (net.Listener, error) {
	own, err := inherited(fd, unix.S_IFSOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inherited file %d: %w", fd, err)
	}
	if l.Addr().String() != address {
		return nil, errors.Join(fmt.Errorf("inherited file %d listens at %v, not at %s", fd, l.Addr(), address), l.Close())
	}
	return l, nil
}

// inherited duplicates a descriptor, which has to be an open file of the given kind.
func inherited(fd int, kind uint32) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("inherited file %d: %w", fd, err)
	}
	if uint32(st.Mode)&unix.S_IFMT != kind {
		return 0, fmt.Errorf("inherited file %d is something else now", fd)
	}
	unix.CloseOnExec(fd)
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return 0, fmt.Errorf("inherited file %d: %w", fd, err)
	}
	return own, nil
}

// onDumpSignal calls f for every SIGUSR1. The returned function ends this, waiting for a
// call in progress.
func onDumpSignal(f func()) func() {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		defer close(done)
		for range signals {
			f()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
