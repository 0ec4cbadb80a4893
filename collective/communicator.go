package collective

// Communicator connects the ranks of a job. Package jaccl implements it; the
// runtime sees only this interface. Its methods may be called by one goroutine
// per rank at a time.
type Communicator interface {
	// Rank is this rank's index in the job, 0 to Size()-1.
	Rank() int
	Size() int
	// Group returns the group of the given ranks of the job, in that order. This rank
	// must be one of them. Every member calls Group with the same ranks; the call does
	// not block on the other members.
	Group(ranks []int) (Group, error)
	// Fail poisons the job: every collective that is waiting or called later, on any
	// rank, returns an error that wraps cause and names this rank.
	Fail(cause error)
	// Close releases the rank's resources. It may be called twice.
	Close() error
}

// Renewer is implemented by communicators of ranks that all live in one process.
type Renewer interface {
	// Renew ends the poisoning of the job, for all ranks: their next collectives are
	// those of a new job. No rank may be in a collective, nor call one before Renew returns.
	// Ranks and groups that are closed stay closed.
	Renew()
}

// Leaser is implemented by communicators that own memory that data is exchanged from and
// to without a copy, because other ranks or a network device can access it.
type Leaser interface {
	// Lease returns n zeroed bytes of that memory, which begin at a page. They stay valid
	// until release is called, also after the communicator is closed. release may be
	// called twice. The error says why there is no such memory; the caller then uses
	// ordinary memory.
	Lease(n int) (b []byte, release func() error, err error)
}
