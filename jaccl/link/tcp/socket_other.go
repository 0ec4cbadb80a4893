//go:build !linux && !darwin

package tcp

import "net"

// sockets returns a mover of conns, by rank. The mover owns them.
func sockets(conns []net.Conn) (mover, error) { return newStreams(conns) }
