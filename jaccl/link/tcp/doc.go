// Package tcp is a link.Link over TCP: one connection between every two ranks.
//
// What a rank sends to a peer in one exchange is one frame: a header with a
// sequence number, the lengths of head and data, and a checksum of header and
// head; the head; the data. A small exchange is one write and one read. Data moves
// directly between the socket and the caller's buffers, except for the few KiB that are
// read together with a head.
//
// On Unix the goroutine that calls Exchange does all the work: without blocking, it
// writes what the sockets take and reads what they have, for all peers in turn. So no
// combination of sizes makes ranks wait for each other, and no goroutine has to be woken.
// When nothing moves it tries again for a moment, as a peer's answer is often
// microseconds away, and then sleeps until a socket is ready. On Linux, if a host has a
// core for each of its ranks, a rank that finds a peer on its own core moves to another
// core. On other systems, and for connections that are no sockets, one goroutine for each
// direction of each peer reads or writes with calls that block.
package tcp
