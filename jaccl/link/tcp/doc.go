// Package tcp implements link.Link over TCP, with one connection between every two ranks.
// Begin with Connect. The data is not encrypted, and TCP's checksum is the only one.
//
// A rank sends one frame to each peer in an exchange: a header, the head, and the data.
// The header has a sequence number, the lengths of head and data, and a checksum of
// header and head. A small exchange is one write and one read. Data moves directly
// between the socket and the caller's buffers, except for the few KiB that are read
// together with a head.
//
// On Linux and darwin the goroutine calling Exchange does all the work. Without blocking,
// it writes as much as the sockets accept and reads as much as they have, for all peers
// in turn. So no combination of sizes makes ranks wait for each other, and no goroutine
// has to be woken. When nothing moves, the goroutine tries again for a moment, because a
// peer's answer is often microseconds away, and then sleeps until a socket is ready. On
// Linux, if a host has a core for each of its ranks, a rank that finds a peer on its own
// core moves to another core. On other systems, and for connections that are not TCP
// sockets, one goroutine for each direction of each peer reads or writes with calls that
// block.
package tcp
