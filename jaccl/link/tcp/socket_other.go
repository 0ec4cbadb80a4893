//go:build !linux && !darwin

package tcp

import "net"

// sockets returns a mover of the connections, by rank, and owns them from now on.
func sockets(conns []net.Conn) (mover, error) { return newStreams(conns) }
