// Package launch starts the ranks of a job as processes, on this machine and on others,
// and ends them together. Begin with Run.
//
// Every rank gets its place in the environment variables read by package environ, with a
// new id and a new secret of the job. On this machine the secret is passed in the
// environment. To other machines it is passed on the standard input of the remote
// command, never in an argument that other users can see.
//
// The output of ranks is printed line by line, prefixed by the rank. The first rank that
// fails ends the job: the others get SIGTERM and, if that does not help, SIGKILL. The
// last lines printed name the failed rank, its exit, and its last output. A signal to the
// launcher is passed to all ranks; a second signal kills them.
//
// A printing rank waits for the reader of the launcher's output, as it would without a
// launcher. The launcher itself never waits: it watches the ranks and forwards signals
// even without a reader. When a job is ending, lines not read for 2 seconds are dropped,
// and a message on standard error gives their number. Unwritten output is a failure of
// the job.
//
// No process outlives a job, whichever process dies. A rank is a process group of its
// own, which is killed when its first process has ended. A guard, a shell reading from a
// pipe of the launcher, kills all groups of this machine when the pipe ends because the
// launcher was killed; on Linux the kernel also kills the ranks at once. The guard also
// removes a program built by the launcher. On other machines a shell kills the ranks when
// its standard input ends.
//
// run.go has the course of a job, options.go its description, place.go the host of every
// rank, gorun.go the program built for "go run", process.go a started rank, on this machine
// or another, output.go the lines of ranks, numa.go the processors of ranks, and group_*.go
// the processes that end together.
package launch
