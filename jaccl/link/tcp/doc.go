// Package tcp is a link.Link over TCP: one connection between every two ranks.
//
// What a rank sends to a peer in one exchange is one frame: a header with a
// sequence number, the lengths of head and data, and a checksum of header and
// head; the head; the data. A small exchange is one write and one read. Data goes
// between the socket and the caller's buffers, and nowhere else but for the few KiB
// that come with a head.
//
// On Unix the goroutine that calls Exchange does it all: it writes and reads
// whatever the sockets take and give, without blocking, to and from all peers in
// turn, so that no order of sizes can make ranks wait for each other, and no
// goroutine has to be woken. When nothing moves it tries again for a moment, as a
// peer's answer is often microseconds away, and then sleeps until a socket is
// ready. On Linux, where a host has a core for each of its ranks, a rank that finds a
// peer on its own core goes to another. Elsewhere, and for connections that are no sockets, a goroutine for each
// direction of each peer does the same with reads and writes that block.
package tcp
