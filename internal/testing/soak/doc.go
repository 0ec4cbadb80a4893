// Package soak has one long test only, which runs with the tag soak: `make soak`. It
// repeatedly starts training in four processes, with a fault at a random moment: a rank
// is killed, stopped, paused or cut off, the disk is full, the output has no reader, or
// the user interrupts the job. The test checks that nothing hangs, that every survivor
// names the lost rank, that no process, file, shared memory or socket is left over, and
// that an undisturbed run gives the same numbers every time. In between, it watches the
// memory of a long run.
package soak
