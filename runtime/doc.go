// Package runtime runs plans: it keeps arrays on their ranks, executes every
// rank's instructions in order, and reports failures with the rank, the
// instruction and the user's line. It sees ranks only through a Communicator.
//
// A Device, if there is one, runs the instructions that a plan leaves to it, on memory
// that it shares with the host. A rank then encodes instructions as it comes to them and
// hands them over in segments, and waits for a segment where its own next instruction
// touches what that works on: lowering.Schedule says where. A step ends when its last
// segment has, so what a session gives out is always complete.
//
// Memory that a device sees is not Go's: Arrays own their parts of it, and give them back
// when nobody reaches the Array any more. Recycle gives them to later results at once.
//
// Begin with Open, which makes a Session of a plan and its ranks, and with Session.Run. Most
// programs have a Session from gomoe.Open instead. The package knows no primitive and no
// transport.
package runtime
