// Package runtime runs plans: it keeps arrays on their ranks, executes every
// rank's instructions in order, and reports failures with the rank, the
// instruction and the user's line. It sees ranks only through a Communicator.
//
// If there is a Device, it runs the instructions that a plan assigns to it, on memory that
// it shares with the host. A rank encodes such instructions as it comes to them and commits
// them in segments. It waits for a segment when its own next instruction touches memory that
// the segment works on; lowering.Schedule says where. A step ends when its last segment has
// ended, so every result that a session returns is complete.
//
// Memory that a device sees does not belong to Go's heap. Arrays own their parts of it; it
// is given back when nobody refers to the Array any more. Recycle makes it available to
// later results at once.
//
// Begin with Open, which makes a Session of a plan and its ranks, and with Session.Run. Most
// programs have a Session from gomoe.Open instead. The package knows no primitive and no
// transport.
package runtime
