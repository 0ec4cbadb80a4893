// Package launch starts the ranks of a job as processes, on this machine and on
// others, and sees to it that they end together.
//
// Every rank finds its place in its environment, as package environ reads it, with
// a new id and a new secret of the job. On this machine the secret travels in the
// environment; to others, on the standard input of the command that reaches them,
// never in an argument that other users see.
//
// What ranks print comes out line by line, each with its rank in front. The first
// rank that fails ends the job: the others get SIGTERM and, if that does not help,
// SIGKILL, and what is printed last is which rank it was, how it ended, and its
// last lines. A signal to the launcher reaches all ranks; a second one kills them.
//
// Nothing outlives a job, whatever dies. A rank is a process group of its own, which
// is killed when its first process has ended. If the launcher is killed, a guard, a
// shell that reads from a pipe of the launcher, kills all groups of this machine when
// the pipe ends; on Linux the kernel kills the ranks at once. On other machines a
// shell does the same when its standard input ends.
package launch
