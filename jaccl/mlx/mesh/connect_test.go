package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// joined is a job of JACCL whose ranks are all in this process.
func joined(t *testing.T, n int, change func(o *Options)) []jaccl.Communicator {
	t.Helper()
	comms, errs := join(t, n, "", change)
	require.NoError(t, errors.Join(errs...))
	return comms
}

func join(t *testing.T, n int, play string, change func(o *Options)) ([]jaccl.Communicator, []error) {
	t.Helper()
	comms, errs := make([]jaccl.Communicator, n), make([]error, n)
	lib, address, ctx := rdmatest.Standin(t, play), rdmatest.FreeAddress(t), rdmatest.Within(t, 3*time.Minute)
	var wg sync.WaitGroup
	for i := range n {
		o := Options{Settings: rdma.Settings{Library: lib}, Rank: i, Devices: rdmatest.Mesh(n), Coordinator: address, Unchecked: true}
		if change != nil {
			change(&o)
		}
		wg.Go(func() { comms[i], errs[i] = Connect(ctx, o) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for range 2 {
			for i, c := range comms {
				if c == nil {
					continue
				}
				if err := c.Close(); err != nil {
					t.Errorf("close of rank %d: %v", i, err)
				}
			}
		}
	})
	return comms, errs
}

func call(op string, seq int) collective.Call {
	return collective.Call{Op: op, Seq: seq, DType: graph.U8, Pos: graph.Pos{File: "m.go", Line: 4}}
}

// What JACCL lacks is refused on every rank, and the job goes on.
func TestUnsupported(t *testing.T) {
	ctx := rdmatest.Within(t, 3*time.Minute)
	require.NoError(t, errors.Join(jaccltest.Each(joined(t, 3, nil), func(c jaccl.Communicator) error {
		g := c.World()
		parts := [][]byte{nil, nil, nil}
		_, split := g.Split(ctx, call("split", 0), 0, 0)
		_, some := c.Among([]int{0, 1, 2}[:2])
		if c.Rank() == 2 {
			_, some = c.Among([]int{2, 1})
		}
		_, order := c.Among([]int{2, 1, 0})
		for i, err := range []error{split, some, order,
			g.AllToAll(ctx, call("all_to_all", 0), parts, parts), g.AllGatherV(ctx, call("all_gather_v", 0), parts, nil), g.Broadcast(ctx, call("broadcast", 0), 0, nil)} {
			if !errors.Is(err, jaccl.ErrUnsupported) || !strings.Contains(err.Error(), "JACCL has") {
				return fmt.Errorf("operation %d: %v, want ErrUnsupported and why", i, err)
			}
		}
		all, err := c.Among([]int{0, 1, 2})
		if err != nil {
			return err
		}
		alone, err := c.Group([]int{c.Rank()})
		if err != nil {
			return err
		}
		b, sum := []byte{byte(c.Rank() + 1)}, []byte{0}
		if err := alone.AllSum(ctx, call("all_sum", 1), sum, b); err != nil || sum[0] != b[0] {
			return fmt.Errorf("the sum of one rank is %v: %v", sum, err)
		}
		if err := all.AllSum(ctx, call("all_sum", 1), sum, b); err != nil || sum[0] != 6 {
			return fmt.Errorf("the sum is %v: %v, want 6", sum, err)
		}
		if err := errors.Join(g.Barrier(ctx, call("barrier", 2)), g.Close(), g.Close()); err != nil {
			return err
		}
		if err := g.Barrier(ctx, call("barrier", 3)); !errors.Is(err, jaccl.ErrClosed) || !strings.Contains(err.Error(), "has closed its group") {
			return fmt.Errorf("a closed group gives %v, want ErrClosed", err)
		}
		return all.Barrier(ctx, call("barrier", 3))
	})...))
}

// A rank that closes says nothing about those whose connections it closes.
func TestRankZeroLeaves(t *testing.T) {
	ctx := rdmatest.Within(t, 3*time.Minute)
	require.NoError(t, errors.Join(jaccltest.Each(joined(t, 4, nil), func(c jaccl.Communicator) error {
		if c.Rank() == 0 {
			return c.Close()
		}
		time.Sleep(100 * time.Millisecond)
		b := make([]byte, 100000)
		for i := range 20 { // and the others go on in pairs
			time.Sleep(5 * time.Millisecond)
			var err error
			switch c.Rank() {
			case 1, 3:
				err = c.World().Send(ctx, call("send", i), 2, b)
			case 2:
				err = errors.Join(c.World().Recv(ctx, call("recv", i), 1, b), c.World().Recv(ctx, call("recv", i), 3, b))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})...))
}

// What is wrong on one rank alone is an error there, at once, and then on all.
// held holds an operation up where it looks whether its context has ended, which is after it has found nothing to receive.
type held struct {
	context.Context
	asked *int
	begin chan struct{}
	until *sync.WaitGroup
}

func (h held) Err() error {
	if *h.asked++; *h.asked == 2 { // the first time is before the operation
		close(h.begin)
		h.until.Wait()
		time.Sleep(2 * rdma.Grace)
	}
	return h.Context.Err()
}

// A rank that has been held up completes an operation with data that came before the others have closed.
func TestOthersHaveClosed(t *testing.T) {
	comms, begin := joined(t, 3, nil), make(chan struct{})
	var all, others sync.WaitGroup
	others.Add(2)
	for rank, c := range comms {
		all.Go(func() {
			ctx := t.Context()
			if rank == 2 {
				ctx = held{ctx, new(int), begin, &others}
			} else {
				defer others.Done()
				<-begin
			}
			b := make([]byte, 12)
			require.NoError(t, c.World().AllSum(ctx, call("all_sum", 0), b, b))
			require.NoError(t, c.Close())
		})
	}
	all.Wait()
}

func TestArguments(t *testing.T) {
	ctx := rdmatest.Within(t, 3*time.Minute)
	typed := func(op string, d graph.DType) collective.Call { return collective.Call{Op: op, DType: d} }
	shared := make([]byte, 64)
	for name, f := range map[string]func(g jaccl.Group) error{
		"all_max with the method of all_sum": func(g jaccl.Group) error { return g.AllSum(ctx, call("all_max", 0), nil, nil) },
		"elements of none":                   func(g jaccl.Group) error { return g.AllSum(ctx, typed("all_sum", 0), nil, nil) },
		"buffer of 6 bytes, want whole":      func(g jaccl.Group) error { return g.AllMax(ctx, typed("all_max", graph.F32), shared[:6], shared[:6]) },
		"dst of 4 bytes and src of 8":        func(g jaccl.Group) error { return g.AllMin(ctx, call("all_min", 0), shared[:4], shared[8:16]) },
		"overlaps a part of src":             func(g jaccl.Group) error { return g.AllSum(ctx, call("all_sum", 0), shared[4:20], shared[:16]) },
		"want 8 of dst for 2 members":        func(g jaccl.Group) error { return g.AllGather(ctx, call("all_gather", 0), shared[:9], shared[32:36]) },
		"dst that overlaps src": func(g jaccl.Group) error {
			return g.ReduceScatter(ctx, call("reduce_scatter", 0), shared[:4], shared[:8])
		},
		"want 8 of src for 2 members": func(g jaccl.Group) error {
			return g.ReduceScatter(ctx, call("reduce_scatter", 0), shared[:4], shared[8:12])
		},
		"member 0, want another one of 2":  func(g jaccl.Group) error { return g.Send(ctx, call("send", 0), 0, nil) },
		"member 2, want another one of 2":  func(g jaccl.Group) error { return g.Recv(ctx, call("recv", 0), 2, nil) },
		"split with the method of barrier": func(g jaccl.Group) error { return g.Barrier(ctx, call("split", 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			errs := jaccltest.Each(joined(t, 2, nil), func(c jaccl.Communicator) error {
				if c.Rank() == 0 {
					return f(c.World())
				}
				return c.World().Barrier(ctx, call("barrier", 0))
			})
			want := name
			if i := strings.Index(name, " with the method"); i > 0 {
				want = "calls " + name[:i]
			}
			for i, err := range errs {
				rdmatest.Contains(t, err, want, "rank 0 calls", fmt.Sprintf("seen by rank %d", i))
				if !errors.Is(err, jaccl.ErrArgument) {
					t.Errorf("rank %d: %v, want ErrArgument", i, err)
				}
			}
		})
	}
}

func TestFailures(t *testing.T) {
	cause := errors.New("out of memory")
	for _, c := range []struct {
		name string
		odd  func(c jaccl.Communicator, cancel func())
		kind error
		own  error // what the rank at fault wraps, nil if it has no error
		want []string
	}{
		{"fail", func(c jaccl.Communicator, _ func()) { c.Fail(cause) }, nil, cause, []string{"rank 1 failed: out of memory"}},
		{"close", func(c jaccl.Communicator, _ func()) { c.Close() }, jaccl.ErrClosed, jaccl.ErrClosed, []string{"rank 1 has closed its communicator"}},
		{"cancel", func(_ jaccl.Communicator, cancel func()) { cancel() }, nil, context.Canceled, []string{"rank 1 left recv #7", "context canceled"}},
		{"deadline", func(jaccl.Communicator, func()) {}, jaccl.ErrDeadline, jaccl.ErrDeadline, []string{"bytes to come from it", "nothing has moved for 500ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			comms := joined(t, 3, func(o *Options) {
				if c.name == "deadline" {
					o.Deadline = 500 * time.Millisecond
				}
			})
			errs := jaccltest.Each(comms, func(comm jaccl.Communicator) error {
				ctx, cancel := context.WithCancel(rdmatest.Within(t, 3*time.Minute))
				defer cancel()
				if comm.Rank() != 1 {
					return comm.World().Recv(ctx, call("recv", 3), 1, make([]byte, 50000))
				}
				time.AfterFunc(30*time.Millisecond, func() { c.odd(comm, cancel) })
				return comm.World().Recv(ctx, call("recv", 7), 2, make([]byte, 1<<20))
			})
			for i, err := range errs {
				rdmatest.Contains(t, err, c.want...)
				var je *jaccl.Error
				if !errors.As(err, &je) || je.Rank != i || len(je.Blame) == 0 {
					t.Errorf("rank %d: %v is no complete *jaccl.Error", i, err)
				}
				if c.kind != nil && !errors.Is(err, c.kind) || i == 1 && !errors.Is(err, c.own) {
					t.Errorf("rank %d: %v is of another kind", i, err)
				}
			}
			for i, err := range jaccltest.Each(comms, func(comm jaccl.Communicator) error {
				return comm.World().Barrier(rdmatest.Within(t, 3*time.Minute), call("barrier", 8))
			}) {
				if err == nil {
					t.Errorf("rank %d: an operation succeeded after the failure", i)
				}
			}
		})
	}
}

func TestSetup(t *testing.T) {
	lib, address := rdmatest.Standin(t, ""), rdmatest.FreeAddress(t)
	for _, c := range []struct {
		want   string
		change func(o *Options)
	}{
		{"deadline -1ns, want 0", func(o *Options) { o.Deadline = -1 }},
		{"rank 2 of 2", func(o *Options) { o.Rank = 2 }},
		{"rank 0 of 0", func(o *Options) { o.Devices = nil }},
		{"coordinator \"10.0.0.1\", want an address", func(o *Options) { o.Coordinator = "10.0.0.1" }},
		{"coordinator \"[::1]:80\", want an address", func(o *Options) { o.Coordinator = "[::1]:80" }},
		{"ranks [1] have not connected: context deadline", func(o *Options) {}},
		{"rank 0 does not answer", func(o *Options) { o.Rank = 1 }},
		{"cannot be loaded; check JACCL_LIBRDMA", func(o *Options) { o.Library = "/nowhere" }},
		{"the device has no such queue pairs", func(o *Options) { o.Service = rdma.RC }},
		{"takes 2 memory regions, and 0 for leases, 2 in all, and has 1", func(o *Options) { o.Regions = 1 }},
	} {
		o := Options{Settings: rdma.Settings{Library: lib}, Devices: rdmatest.Mesh(2), Coordinator: address}
		c.change(&o)
		comm, err := Connect(rdmatest.Within(t, 200*time.Millisecond), o)
		if comm != nil {
			comm.Close()
		}
		rdmatest.Contains(t, err, "rdma: job of JACCL: rank", c.want)
	}
	_, errs := join(t, 2, "refuse=ibv_modify_qp,after=3", nil)
	for _, err := range errs {
		if err == nil {
			t.Error("a rank joined although the other could not")
		}
	}
}

// Strangers come to rank 0 before the ranks do, more of them than it listens to at a time:
// some say nothing, some what no rank says, one a rank that the job does not have. The job
// comes together all the same.
func TestStrangersDoNotMatter(t *testing.T) {
	lib, address, ctx := rdmatest.Standin(t, ""), rdmatest.FreeAddress(t), rdmatest.Within(t, 3*time.Minute)
	comms, errs := make([]jaccl.Communicator, 3), make([]error, 3)
	connect := func(r int) {
		comms[r], errs[r] = Connect(ctx, Options{Settings: rdma.Settings{Library: lib}, Rank: r, Devices: rdmatest.Mesh(3), Coordinator: address})
	}
	var wg sync.WaitGroup
	wg.Go(func() { connect(0) })
	for i := range maxCallers + 10 {
		var conn net.Conn
		for conn == nil && ctx.Err() == nil {
			conn, _ = net.Dial("tcp4", address)
		}
		require.NotNil(t, conn)
		defer conn.Close()
		switch i % 8 {
		case 0:
			conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		case 1:
			conn.Write([]byte{7, 0, 0, 0})
		case 2:
			conn.Write([]byte{1}) // and no more
		}
	}
	wg.Go(func() { connect(1) })
	wg.Go(func() { connect(2) })
	wg.Wait()
	for r, c := range comms {
		if errs[r] != nil {
			t.Errorf("rank %d: %v", r, errs[r])
		} else {
			defer c.Close()
		}
	}
}

// Ranks that have met need no coordinator.
func TestConnectionsGiven(t *testing.T) {
	between := make([][]net.Conn, 3)
	for r := range between {
		between[r] = make([]net.Conn, 3)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for a := range between {
		for b := range a {
			between[a][b], err = net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			between[b][a], err = l.Accept()
			require.NoError(t, err)
		}
	}
	idle := between[1][2]
	comms := joined(t, 3, func(o *Options) { o.Coordinator, o.Conns = "", between[o.Rank] })
	ctx := rdmatest.Within(t, 3*time.Minute)
	require.NoError(t, errors.Join(jaccltest.Each(comms, func(c jaccl.Communicator) error { return c.World().Barrier(ctx, call("barrier", 0)) })...))
	if n, err := idle.Write([]byte{0}); err == nil {
		t.Errorf("%d bytes were written to a connection that JACCL has no use for, want it closed", n)
	}
	_, err = Connect(ctx, Options{Settings: rdma.Settings{Library: rdmatest.Standin(t, "")}, Devices: rdmatest.Mesh(3), Conns: between[0][:2]})
	rdmatest.Contains(t, err, "2 connections, want one for each of 3 ranks, or none")
}

// Others than the ranks of the job come to rank 0.
func TestStrangers(t *testing.T) {
	lib := rdmatest.Standin(t, "")
	for _, c := range []struct {
		want string
		says [][]byte // by each that comes
	}{
		{"ranks [1 2] have not connected: context deadline exceeded; 127.0.0.1:", [][]byte{{9, 0, 0, 0}}},
		{"says that it is rank 9, want 1 to 2; check that all ranks", [][]byte{{9, 0, 0, 0}}},
		{"says that it is rank -1, want 1 to 2", [][]byte{{255, 255, 255, 255}}},
		{"ranks [2] have not connected: context deadline exceeded; both 127.0.0.1", [][]byte{{1, 0, 0, 0}, {1, 0, 0, 0}}},
		{"rank 1 has connections for 5 ranks and wires, want 3, for 3 ranks on 1 wires", [][]byte{{1, 0, 0, 0, 5, 0, 0, 0}, {2, 0, 0, 0, 3, 0, 0, 0}}},
		{"rank 1 on the side channel: EOF", [][]byte{{1, 0, 0, 0}, {2, 0, 0, 0}, nil}},
	} {
		ctx, address := rdmatest.Within(t, 2*time.Second), rdmatest.FreeAddress(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, says := range c.says {
				if says == nil { // they all end
					return
				}
				var conn net.Conn
				for conn == nil && ctx.Err() == nil {
					conn, _ = net.Dial("tcp4", address)
				}
				if conn == nil {
					return
				}
				conn.Write(says)
				defer conn.Close()
			}
			time.Sleep(200 * time.Millisecond)
		}()
		_, err := Connect(ctx, Options{Settings: rdma.Settings{Library: lib}, Devices: rdmatest.Mesh(3), Coordinator: address})
		rdmatest.Contains(t, err, c.want)
		<-done
	}
}
