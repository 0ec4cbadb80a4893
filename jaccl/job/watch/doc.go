// Package watch implements link.Watch over connections of its own, one between every two
// ranks. These connections carry no data, so messages of the watch never wait for data.
// Begin with Start.
//
// A rank is lost if its connection ends before the rank has announced that it leaves: its
// process has ended, whatever the reason, and every other rank notices at once. A rank
// that is silent for Options.Silence is lost as well: it is stopped, or its machine is
// cut off. The watch does not wait for the kernel's timers. A rank that was itself
// stopped does not blame others for that time, so no rank is lost when all ranks pause.
// Ranks ask each other for the time a few times a second. This heartbeat also measures
// the differences between their clocks.
//
// # Who decides
//
// In a job of links the watch alone decides that a rank is dead, cut off or silent, and
// the engine then ends the exchange in progress. No link looks for dead processes. A link
// may see that a peer is gone: TCP's connections end, shm's peers write it into their
// memory, and mpi's send a farewell. verbs has queue pairs that do not report it, and
// asks its exchange, which asks the watch. A link's report is a notice like any other:
// the engine announces it to the watch, waits for the decision, and returns the decision.
//
// MLX's ring and mesh are not links, and their ranks may be processes of MLX, which know
// no watch: packages mlx/ring and mlx/mesh report failures of their own connections.
//
// # Whereabouts of ranks
//
// When its deadline passes, a rank asks all others for their current operations, so that
// ranks that are waiting themselves are not blamed. A rank's watch answers at any time.
//
// # Groups that are closed
//
// A rank that has closed a group tells every other member the number of operations begun
// with that member: these operations continue.
//
// # The first failure
//
// Failures come in groups: one rank fails, others see the consequences, and all tell each
// other at once. A rank knowing of a failure announces no other one, so only notices of
// ranks unaware of each other compete. A rank waits for Options.Settle after the first
// notice before declaring the job down. Of the notices received by then, the watch
// chooses the one that is least likely to be a consequence of another:
//
//  1. a lost rank: it gave no reason for ending, so that no other rank can be named
//     as the reason; contexts that a launcher ends and deadlines that pass follow from it,
//  2. an unusable argument, 3. a mismatch: these are found in the ranks' calls,
//     and nothing else causes them,
//  4. a rank's own cause, which may be that it was told to stop,
//  5. a rank that has closed,
//  6. a deadline, which any of the above makes pass.
//
// Among notices of one kind, the lowest rank's counts. If a rank receives a notice with
// precedence over its current one, it forwards the notice to all, so that a broken
// connection between two ranks does not keep one of them from receiving it.
//
// watch.go has the state of the watch, peer.go a connection and the estimate of its clock,
// and message.go the messages, with partings and the whereabouts of ranks.
package watch
