// Package watch implements link.Watch over connections of its own, one between every
// two ranks. These connections carry no data, so that no message of the watch has to wait
// for data. Begin with Start.
//
// A rank whose connection ends before the rank has said that it leaves is lost: its
// process has ended, whatever the reason, and every other rank sees that at once.
// A rank that is silent for Options.Silence is lost, too: it is stopped, or its machine is
// cut off. The watch does not wait for the kernel's timers. A rank that was itself stopped
// does not blame others for that time, so that nobody is lost when all ranks pause. Ranks
// ask each other for the time a few times a second. That is the heartbeat, and it also tells
// them how their clocks differ.
//
// # Who decides
//
// In a job of links the watch alone decides that a rank is dead, cut off or silent, and the
// engine then ends the exchange in progress. No link looks for dead processes. A link may see
// that a peer is gone: TCP's connections end, shm's peers write it into their memory, and
// mpi's send a farewell. verbs, whose queue pairs do not tell, asks its exchange, which asks
// the watch. What a link says is a notice like any other: the engine announces it to the
// watch, waits for the decision, and returns the decision.
//
// MLX's ring and mesh are no links, and their ranks may be processes of MLX, which know no
// watch: packages mlx/ring and mlx/mesh say what they conclude from their own connections.
//
// # Where ranks are
//
// A rank whose deadline passes asks all others in which operation they are, so that
// ranks that themselves wait are not blamed. A rank's watch answers whatever the rank does.
//
// # Groups that are closed
//
// A rank that has closed a group tells every other member, with the number of operations
// that it has begun there with that member: the operations that it has begun continue.
//
// # The first failure
//
// Failures come in groups: one rank fails, others see the consequences, and all
// tell each other at once. A rank that knows of a failure announces no other one, so that
// only notices of ranks that did not know of each other compete. A rank waits for
// Options.Settle after the first notice before it says that the job is down. Of the notices
// that have come by then, the watch takes the one that is the least likely to be a
// consequence of another:
//
//  1. a lost rank: it did not say why it ended, so that no other rank can be named as
//     the reason; contexts that a launcher ends and deadlines that pass follow from it,
//  2. an unusable argument, 3. a mismatch: these are found in what ranks called,
//     and nothing else causes them,
//  4. a rank's own cause, which may be that it was told to stop,
//  5. a rank that has closed,
//  6. a deadline, which any of the above makes pass.
//
// Of notices of one kind, that of the lowest rank counts. A rank that hears a notice which
// comes before the one that it had passes it on to all, so that a broken connection between
// two ranks does not keep one of them from hearing it.
package watch
