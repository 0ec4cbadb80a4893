// Package soak has one long test only, which runs with the tag soak: `make soak`. It starts
// training in four processes again and again, and each time something goes wrong at a random
// moment: a rank is killed, stopped, paused or cut off, the disk is full, nobody reads the
// output, or the user interrupts the job. The test checks that nothing hangs, that every
// survivor names the rank that was lost, that no process, file, shared memory or socket stays
// behind, and that a run that nothing disturbs gives the same numbers every time. In between,
// it watches the memory of a long run.
package soak
