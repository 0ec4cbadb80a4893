package watch

import (
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout bounds how long sent data may be unacknowledged.
func userTimeout(fd uintptr, d time.Duration) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
