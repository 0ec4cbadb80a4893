package ring

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// comm is this rank's end of the ring. It is also the ring's only group.
type comm struct {
	headless.Member
	names       []string // names of the ranks, for people
	deadline    time.Duration
	left, right []*wire    // to the rank before and the rank after, one for each address
	scratch     []*scratch // memory of the lanes
	inUse       atomic.Bool

	mu    sync.Mutex
	first *headless.FailureError
}

// wire is one connection to a neighbour. It counts the bytes that the operation in
// progress has yet to send and receive, for error messages.
type wire struct {
	net.Conn
	peer              int
	toSend, toReceive atomic.Int64 // bytes

	in   sync.Mutex // held by the goroutine that reads
	byte byte       // the first byte of a later operation, if held
	held bool       // listen has read byte
}

var (
	_ jaccl.Communicator = (*comm)(nil)
	_ jaccl.Group        = (*comm)(nil)
)

// World implements jaccl.Communicator.
func (m *comm) World() jaccl.Group { return m }

// Group implements collective.Communicator. There is one group, of all ranks in order.
func (m *comm) Group(ranks []int) (collective.Group, error) {
	g, err := m.Among(ranks)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Among implements jaccl.Communicator, like Group.
func (m *comm) Among(ranks []int) (jaccl.Group, error) {
	world := len(ranks) == m.Size()
	if err := headless.Ranks("ring: ", ranks, m.Size()); err != nil {
		return nil, err
	}
	for i, r := range ranks {
		world = world && r == i
	}
	if !world {
		return nil, fmt.Errorf("ring: group %v: MLX's ring has no groups but that of all %d ranks in order; use the transport tcp, or a ring for each group: %w", ranks, m.Size(), jaccl.ErrUnsupported)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first != nil {
		return nil, fmt.Errorf("ring: group %v: %w", ranks, m.first)
	}
	return m, nil
}

// Fail implements collective.Communicator. The neighbours notice the end of their
// connections, without a reason; they then close theirs, so the failure reaches all
// ranks.
func (m *comm) Fail(cause error) {
	if cause == nil {
		cause = fmt.Errorf("no cause given")
	}
	m.fail(&headless.FailureError{Blame: []int{m.Index}, Text: fmt.Sprintf("ring: rank %d failed: %v", m.Index, cause), Err: cause})
}

// Close closes the connections. Neighbours that wait for this rank, now or later,
// get an error.
func (m *comm) Close() error {
	m.fail(&headless.FailureError{Blame: []int{m.Index}, Text: fmt.Sprintf("ring: rank %d has closed its communicator", m.Index), Err: jaccl.ErrClosed})
	return nil
}

// fail poisons the ring with f, unless it is poisoned already, closing the connections.
// It returns the failure that poisoned the ring.
func (m *comm) fail(f *headless.FailureError) *headless.FailureError {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == nil {
		m.first = f
		m.shut()
	}
	return m.first
}

func (m *comm) failed() *headless.FailureError {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first
}

func (m *comm) shut() {
	for _, w := range slices.Concat(m.left, m.right) {
		w.Close()
	}
}

// host names a rank for people.
func (m *comm) host(rank int) string {
	return fmt.Sprintf("rank %d (%s)", rank, m.names[rank])
}
