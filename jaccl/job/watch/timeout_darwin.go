package watch

import (
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout bounds how long sent data is repeated.
func userTimeout(fd uintptr, d time.Duration) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RXT_CONNDROPTIME, int(max(d/time.Second, 1)))
}
