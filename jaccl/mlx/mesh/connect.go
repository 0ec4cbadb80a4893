package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// Connect joins a job of JACCL. Any of its ranks may be a process of MLX. It speaks
// JACCL's own protocols: its side channel, its mesh and its messages. It blocks until all
// ranks have connected, for at most a minute unless ctx has a deadline.
//
// The protocols are as in MLX 0.32.4. MLX 0.32.1 to 0.32.3 speak them over one wire, and
// older versions have another mesh. Ranks do not send their versions, so Connect ends
// with a sum of known numbers. A process of MLX takes part in it by
// mx.eval(mx.distributed.all_sum(mx.arange(600_000, dtype=mx.float32))) before anything
// else.
//
// The Communicator has the operations of JACCL, on the group of all ranks in their order:
// AllSum, AllMax, AllMin, AllGather, ReduceScatter, Send, Recv, SendRecv and Barrier.
// There is also the group of this rank alone. Other operations and groups return
// jaccl.ErrUnsupported.
//
// The communicator differs from other transports' communicators:
//
// Sums of f16 and bf16 are rounded after every addition, as in JACCL, because ranks of
// both kinds must get equal results. Sums are added in rank order, even if JACCL adds in
// the order of arrival. So sums of large arrays on three or more ranks may differ in the
// last bits from another run of JACCL, but never between ranks. The sum of bools is their
// disjunction. Maxima and minima are a > b ? a : b and a < b ? a : b, where a is the
// earlier rank's value and b the later one's, including NaNs.
//
// JACCL sends neither the name nor the length of an operation. Ranks do not notice that
// they call different operations: they wait until the deadline, or get each other's
// bytes.
//
// When a rank ends, rank 0 notices that its connection ends, and tells the other ranks of
// this package. If rank 0 is a process of MLX, the others notice only at the deadline.
func Connect(ctx context.Context, o Options) (jaccl.Communicator, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, setupTime)
		defer cancel()
	}
	c := &comm{adapters: rdma.Adapters{}, options: o, rank: o.Rank, size: len(o.Devices)}
	if err := c.connect(ctx); err != nil {
		c.release()
		for _, conn := range o.Conns {
			if conn != nil {
				conn.Close()
			}
		}
		return nil, fmt.Errorf("rdma: job of JACCL: rank %d: %w", o.Rank, err)
	}
	return c, nil
}

// comm is a rank of a job of JACCL.
type comm struct {
	options    Options
	rank, size int
	deadline   time.Duration
	lib        *rdma.Library
	adapters   rdma.Adapters
	eps        [][]*rdma.Endpoint // by wire and rank, nil for this rank
	side       *sideChannel
	party      *party

	mu      sync.Mutex // held by an operation, and to close
	closed  bool
	closing atomic.Bool
	scratch [][]byte // by wire
	acc     reduce.Accumulator
	pace    wait.Waiter
}

var _ jaccl.Communicator = (*comm)(nil)

func (c *comm) connect(ctx context.Context) (err error) {
	if c.deadline, err = (jaccl.Options{Deadline: c.options.Deadline}).Wait(); err != nil {
		return err
	}
	settings := c.options.Settings
	if err := settings.Check(); err != nil {
		return err
	}
	c.options.FramesOnly = c.options.FramesOnly || rdma.FramesOnly()
	if settings.Service == rdma.AnyService {
		settings.Service = rdma.UC // as in JACCL
	}
	if c.rank < 0 || c.rank >= c.size {
		return fmt.Errorf("rank %d of %d, want one that the matrix of devices has", c.rank, c.size)
	}
	if n := len(c.options.Conns); n != 0 && n != c.size {
		return fmt.Errorf("%d connections, want one for each of %d ranks, or none", n, c.size)
	}
	rows, err := rdma.Wires(c.options.Devices, c.rank, c.size)
	if err != nil {
		return err
	}
	if c.lib, err = rdma.OpenLibrary(settings.Library); err != nil {
		return err
	}
	limits, err := settings.Limits(c.lib, c.adapters, slices.Concat(rows...))
	if err != nil {
		return err
	}
	if err := limits.Fits(slices.Concat(rows...), 0); err != nil {
		return err
	}
	c.pace = c.lib.Pace()
	c.scratch = make([][]byte, len(rows))
	var offers []byte
	for w, row := range rows {
		c.eps = append(c.eps, make([]*rdma.Endpoint, c.size))
		for peer, device := range row {
			if peer == c.rank {
				offers = rdma.NoDestination().Append(offers)
				continue
			}
			if c.eps[w][peer], err = rdma.NewEndpoint(c.lib, c.adapters, peer, device, settings.Service); err != nil {
				return err
			}
			offers = c.eps[w][peer].Address.Append(offers)
		}
	}
	if c.options.Conns != nil {
		c.side = overConns(c.rank, c.options.Conns)
	} else if c.side, err = meetRanks(ctx, c.rank, c.size, c.options.Coordinator); err != nil {
		return err
	}
	all, err := c.side.gatherItems(ctx, offers, len(rows))
	if err != nil {
		return err
	}
	for w, eps := range c.eps {
		for peer, e := range eps {
			if e == nil {
				continue
			}
			if err := e.Connect(rdma.ParseDestination(all[((peer*len(rows)+w)*c.size+c.rank)*rdma.DestinationSize:])); err != nil {
				return err
			}
		}
	}
	if err := c.side.barrier(ctx); err != nil {
		return err
	}
	c.party = newParty(c.side)
	if c.options.Unchecked {
		return nil
	}
	return c.check(ctx)
}

// release gives everything back.
func (c *comm) release() {
	if c.party != nil {
		c.party.close()
	} else if c.side != nil {
		c.side.close()
	}
	for _, e := range slices.Concat(c.eps...) {
		if e != nil {
			e.Close()
		}
	}
	c.adapters.Close()
}

// Rank implements collective.Communicator.
func (c *comm) Rank() int { return c.rank }

// Size implements collective.Communicator.
func (c *comm) Size() int { return c.size }

// World implements jaccl.Communicator.
func (c *comm) World() jaccl.Group { return c.group(headless.Everyone(c.size)) }

// Group implements collective.Communicator.
func (c *comm) Group(ranks []int) (collective.Group, error) { return c.Among(ranks) }

// Among implements jaccl.Communicator.
func (c *comm) Among(ranks []int) (jaccl.Group, error) {
	if err := headless.Ranks("rdma: ", ranks, c.size); err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains(ranks, c.rank):
		return nil, fmt.Errorf("rdma: group %v: rank %d asks for a group that it is not in, want only members to", ranks, c.rank)
	case c.closing.Load():
		return nil, fmt.Errorf("rdma: group %v: rank %d: %w", ranks, c.rank, jaccl.ErrClosed)
	case len(ranks) > 1 && (len(ranks) < c.size || !slices.IsSorted(ranks)):
		return nil, fmt.Errorf("rdma: group %v: %w: JACCL has only the group of all %d ranks, in order", ranks, jaccl.ErrUnsupported, c.size)
	}
	return c.group(slices.Clone(ranks)), nil
}

func (c *comm) group(ranks []int) *group {
	g := &group{c: c, Member: headless.Member{
		Prefix: "rdma: ", Protocol: "MLX's JACCL", Job: "a job", Instead: "verbs", Members: ranks, Index: slices.Index(ranks, c.rank),
	}}
	for i, eps := range c.eps {
		w := wire{g: g, scratch: &c.scratch[i]}
		for _, r := range ranks {
			w.eps = append(w.eps, eps[r])
			if r != c.rank {
				w.peers = append(w.peers, eps[r])
			}
		}
		g.wires = append(g.wires, w)
	}
	return g
}

// Fail implements collective.Communicator. Ranks that are processes of MLX do not learn of
// the failure.
func (c *comm) Fail(cause error) {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	c.party.fail(&headless.FailureError{Blame: []int{c.rank}, Text: fmt.Sprintf("rank %d failed: %v", c.rank, cause), Err: cause})
}

// Close implements collective.Communicator. An operation in progress returns with an error.
func (c *comm) Close() error {
	c.closing.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.party.tell(notice{link.KindClosed, false, c.rank, fmt.Sprintf("rank %d has closed its communicator", c.rank)}, -1)
		c.release()
	}
	return nil
}

// checkCount is the number of elements of the sum that Connect uses to check the
// connections. The elements are 0, 1, 2 and so on, as f32. They are the same on all
// ranks, and their sums are exact.
//
// Older versions of MLX send all of an array to every rank. Without the check, a sum over
// ranks of both kinds would be wrong on all ranks, without an error. On three ranks,
// checkCount is the least round number giving messages of both kinds the same length, 512
// KiB, so that the ranks exchange them and see that the sum is wrong.
const checkCount = 600_000

// check adds checkCount numbers, 2.4 MB, on all ranks. That took 12 ms on three ranks in one
// process on two busy processors (BenchmarkCheck).
func (c *comm) check(ctx context.Context) error {
	b := make([]byte, 0, 4*checkCount)
	for i := range checkCount {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	err := c.World().AllSum(ctx, collective.Call{Op: "all_sum", DType: graph.F32, Bytes: int64(len(b))}, b, b)
	for i := 0; i < checkCount && err == nil; i++ {
		got, want := math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])), float32(c.size*i)
		if got != want {
			err = c.party.fail(&headless.FailureError{Blame: []int{c.rank}, Text: fmt.Sprintf("rank %d: element %d of the sum is %v, want %v", c.rank, i, got, want)})
		}
	}
	if err != nil {
		return fmt.Errorf("the sum of %d known numbers, by which the ranks check their connections, failed: all ranks have to speak the protocol of MLX 0.32.4 (0.32.1 to 0.32.3 have it for one wire only, older versions have another), "+
			"and a rank of MLX has to begin with mx.eval(mx.distributed.all_sum(mx.arange(%d, dtype=mx.float32))): %w", checkCount, checkCount, err)
	}
	return nil
}

// Options are a rank's place in a job of JACCL, and its settings.
type Options struct {
	rdma.Settings
	// Rank is the rank of this process. Devices has a row for every rank; a mesh has 2 to 8
	// ranks.
	Rank    int
	Devices hostfile.Devices
	// Coordinator is the IPv4 address, host:port, of rank 0, where it listens and the
	// others connect. Ranks do not prove their identity: a stranger sending a rank of the
	// job is taken for that rank. Other strangers are turned away.
	Coordinator string
	// Conns are connections with the other ranks, by rank, if the ranks have met before.
	// They are used for the side channel instead of Coordinator, and Connect owns them. Nil
	// means that Coordinator is used.
	Conns []net.Conn
	// FramesOnly sends every frame as a message of its own, as JACCL does on macOS before
	// 26.3. All ranks must agree. A rank on such a system always does so.
	FramesOnly bool
	// Unchecked omits the sum of all ranks at the end of Connect; see checkCount.
	Unchecked bool
	// Deadline is the time that an operation waits without receiving anything; 0 means
	// jaccl.DefaultDeadline.
	Deadline time.Duration
}
