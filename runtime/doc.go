// Package runtime runs plans: it keeps arrays on their ranks, executes every rank's
// instructions in order, and reports failures with the rank, the instruction and the
// user's line. It reaches other ranks only through a Communicator.
//
// If there is a Device, it runs the instructions assigned to it by the plan, on memory
// shared with the host. A rank encodes such instructions in order and commits them in
// segments. It waits for a segment when its own next instruction touches memory used by
// the segment, as computed by lowering.Schedule. A step ends when its last segment has
// ended, so every result returned by a session is complete.
//
// Memory visible to a device does not belong to Go's heap. Arrays own their parts of it,
// which are released when the Array becomes unreachable. Recycle makes it available to
// later results at once.
//
// Begin with Open, which makes a Session of a plan and its ranks, and with Session.Run.
// Most programs get a Session from gomoe.Open instead. The package knows no primitive and
// no transport.
package runtime
