package flight

import (
	"errors"
	"sync"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Kept is the number of operations that a Recorder remembers.
const Kept = 256

// Recorder remembers the last operations of one rank. Its methods may be called
// from any goroutine.
type Recorder struct {
	about About
	mu    sync.Mutex
	ring  [Kept]entry
	n     int64 // operations begun
	first func(error)
}

// OnFailure makes the recorder call f once, with the error of the first failing
// operation. f runs on the goroutine that called the operation, before the operation
// returns. Call OnFailure before operations begin.
func (r *Recorder) OnFailure(f func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = f
}

// Clock sets the offset from this rank's clock to rank 0's, accurate to uncertain.
func (r *Recorder) Clock(offset, uncertain time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.about.Offset, r.about.Uncertain = offset, uncertain
}

// About identifies the rank and the job of a record.
type About struct {
	Job string `json:"job,omitempty"` // the job's id
	// Run is a unique name on which the ranks agreed when connecting; a job's id may be
	// reused. It is empty if ranks cannot agree on one.
	Run       string    `json:"run,omitempty"`
	Started   time.Time `json:"started"` // time at which the rank had connected, by its clock
	Rank      int       `json:"rank"`
	Size      int       `json:"size"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Transport string    `json:"transport"`
	// Offset is the offset from this rank's clock to rank 0's, accurate to Uncertain.
	Offset    time.Duration `json:"clock_offset_ns"`
	Uncertain time.Duration `json:"clock_uncertainty_ns"`
}

// entry is one operation.
type entry struct {
	call   collective.Call
	ranks  []int // ranks of the group, which never change
	bytes  int64 // bytes that this rank sends and receives
	peer   int   // the other rank of a pairwise operation, else -1
	began  time.Time
	ended  time.Time // zero while running
	failed error
}

// New returns an empty recorder.
func New(a About) *Recorder { return &Recorder{about: a} }

// Begun returns the number of operations begun.
func (r *Recorder) Begun() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// begin records that an operation starts, returning its number.
func (r *Recorder) begin(c collective.Call, ranks []int, peer int, bytes int64) int64 {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.n
	r.n++
	r.ring[n%Kept] = entry{call: c, ranks: ranks, bytes: bytes, peer: peer, began: now}
	return n
}

// end records the outcome of operation n, returning err.
func (r *Recorder) end(n int64, err error) error {
	now := time.Now()
	r.mu.Lock()
	if r.n-n <= Kept { // it has not been overwritten
		e := &r.ring[n%Kept]
		e.ended, e.failed = now, err
	}
	first := r.first
	broken := err != nil && !errors.Is(err, jaccl.ErrUnsupported) // an unsupported operation does not end the job
	if broken {
		r.first = nil
	}
	r.mu.Unlock()
	if broken && first != nil {
		first(err)
	}
	return err
}

// Wrap returns c with recording of all its operations.
func (r *Recorder) Wrap(c jaccl.Communicator) jaccl.Communicator { return &communicator{c, r} }
