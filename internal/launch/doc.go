// Package launch starts the ranks of a job as processes, on this machine and on
// others, and makes sure that they end together. Begin with Run.
//
// Every rank finds its place in its environment, as package environ reads it, with a
// new id and a new secret of the job. On this machine the secret is passed in the
// environment. To other machines it is passed on the standard input of the command
// that reaches them, never in an argument that other users can see.
//
// The output of ranks appears line by line, each with the rank in front. The first
// rank that fails ends the job: the others get SIGTERM and, if that does not help,
// SIGKILL. The last lines that are printed say which rank failed, how it ended, and
// what it printed last. A signal to the launcher is passed to all ranks; a second
// signal kills them.
//
// A rank that prints waits for whoever reads the launcher's output, as it would without
// a launcher. The launcher itself never waits: it watches the ranks and passes signals on
// although nobody reads. When a job is to end, lines that nobody reads for 2 seconds are
// dropped, and a message on standard error says how many. Output that was not written
// is a failure of the job.
//
// No process outlives a job, whatever dies. A rank is a process group of its own,
// which is killed when its first process has ended. A guard, a shell that reads from
// a pipe of the launcher, kills all groups of this machine when the pipe ends because
// the launcher was killed; on Linux the kernel also kills the ranks at once. The guard
// also removes a program that the launcher has built. On other machines a shell kills
// the ranks when its standard input ends.
package launch
