package watch

import (
	"net"
	"time"
)

// keepAlive makes the kernel end a connection whose other machine does not answer
// for d, as when a cable is cut; heartbeats are on the way all the time, so that
// what has to be bounded is how long they are repeated. A connection without these
// options is found silent by the watch itself.
func keepAlive(c *net.TCPConn, d time.Duration) {
	c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: d / 3, Interval: max(d/6, time.Second), Count: 4})
	if rc, err := c.SyscallConn(); err == nil {
		rc.Control(func(fd uintptr) { userTimeout(fd, d) })
	}
}
