package collective

// Communicator connects the ranks of a job. Package jaccl implements it; the runtime
// knows only this interface. Its methods may be called by one goroutine per rank at a
// time.
type Communicator interface {
	// Rank is this rank's index in the job, 0 to Size()-1.
	Rank() int
	Size() int
	// Group returns the group of the given ranks of the job, in that order. This rank
	// must be one of them. Every member calls Group with the same ranks; the call does
	// not block on the other members.
	Group(ranks []int) (Group, error)
	// Fail poisons the job: every pending or later collective, on any rank, returns an
	// error wrapping cause and naming this rank.
	Fail(cause error)
	// Close releases the rank's resources. It may be called twice.
	Close() error
}

// Renewer is implemented by communicators of ranks that all live in one process.
type Renewer interface {
	// Renew ends the poisoning of the job, for all ranks: their next collectives belong
	// to a new job. No rank may be in a collective, nor call one before Renew returns.
	// Closed ranks and groups stay closed.
	Renew()
}

// Leaser is implemented by communicators with memory that is exchanged without a copy,
// because other ranks or a network device can access it.
type Leaser interface {
	// Lease returns n zeroed bytes of that memory, aligned to a page. They stay valid
	// until release is called, even after the communicator is closed. release may be
	// called twice. The error gives the reason why there is no such memory; the caller
	// then uses ordinary memory.
	Lease(n int) (b []byte, release func() error, err error)
}
