package tcp

import (
	"time"

	"golang.org/x/sys/unix"
)

func read(fd int, b []byte) (int, error)       { return unix.Read(fd, b) }
func write(fd int, b []byte) (int, error)      { return unix.Write(fd, b) }
func readv(fd int, bufs [][]byte) (int, error) { return unix.Readv(fd, bufs) }
func writev(fd int, bufs [][]byte) (int, error) {
	return unix.Writev(fd, bufs)
}

// apart does nothing: darwin has no call moving a thread to another core.
func (p *poller) apart([]*peer, time.Time) {}
