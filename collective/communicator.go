package collective

// Communicator connects the ranks of a job. Package jaccl implements it; the
// runtime sees only this interface. Its methods may be called by one goroutine
// per rank at a time.
type Communicator interface {
	// Rank is this process's index, 0 to Size()-1.
	Rank() int
	Size() int
	// Group returns the communicator of the given ranks of the job, in that
	// order, of which this rank is one. Every member calls it with the same
	// ranks; it does not block on the others.
	Group(ranks []int) (Group, error)
	// Fail poisons the job: every collective that waits or comes later, on any
	// rank, returns an error that wraps cause and names this rank.
	Fail(cause error)
	// Close releases the rank's resources. It may be called twice.
	Close() error
}

// Leaser is implemented by communicators that have memory of their own, from which and to
// which data goes without a copy: ranks see each other's, or a device knows it.
type Leaser interface {
	// Lease returns n bytes of it, zeroed, that begin at a page and stay until release
	// is called, also when the communicator is closed. release may be called twice. The
	// error says why there are none; memory of the process does as well then.
	Lease(n int) (b []byte, release func() error, err error)
}
