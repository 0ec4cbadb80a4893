//go:build !linux && !darwin

package tcp

import "net"

// sockets makes a mover of connections by rank.
func sockets(conns []net.Conn) (mover, error) { return newStreams(conns) }
