package ring_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// dial connects as soon as somebody listens.
func dial(t *testing.T, address string) net.Conn {
	for range 500 {
		if c, err := net.Dial("tcp", address); err == nil {
			return c
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("nobody listens at %s", address)
	return nil
}

// open returns the ranks of a ring in this process. They, and all that they
// started, are gone after the test.
func open(t *testing.T, n, conns int, opts jaccl.Options) []jaccl.Communicator {
	t.Helper()
	before := runtime.NumGoroutine()
	nodes := addresses(t, n, conns)
	comms := make([]jaccl.Communicator, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { comms[r], errs[r] = ring.Connect(t.Context(), nodes, r, opts) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for range 2 {
			for _, c := range comms {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		settled(t, before)
	})
	return comms
}

// settled waits until no more goroutines run than before.
func settled(t *testing.T, before int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// expected is the result of a task by the definition of the order in which a ring
// adds: each element on its own.
func expected(o task, n, conns, rank int) []byte {
	in := make([][]byte, n)
	for r := range in {
		in[r] = o.input(r)
	}
	switch o.Op {
	case "all_gather":
		return bytes.Join(in, nil)
	case "send_recv":
		return in[(rank+n-1)%n]
	case "barrier":
		return nil
	}
	d := o.dtype()
	size := d.Size()
	out := make([]byte, len(in[0]))
	lanes := min(max(len(out)/(n*262144), 1), 2*conns)
	for i := range o.Count {
		part := (o.Count + lanes - 1) / lanes
		lane, at, count := i/part, i%part, min(part, o.Count-i/part*part)
		way := 1 // from a rank to the one after
		if lane%2 == 0 {
			way = n - 1
		}
		start := at / ((count + n - 1) / n)
		if o.Count < n {
			way, start = 1, i
		}
		element := func(r int) []byte { return in[r][i*size:][:size] }
		total := out[i*size:][:size]
		copy(total, element(start))
		for k := 1; k < n; k++ {
			pairwise(o.Op, d, element((start+k*way)%n), total)
		}
	}
	return out
}

// pairwise sets b to a combined with b.
func pairwise(op string, d graph.DType, a, b []byte) {
	le := binary.LittleEndian
	switch d {
	case graph.F64:
		le.PutUint64(b, math.Float64bits(choose(op, math.Float64frombits(le.Uint64(a)), math.Float64frombits(le.Uint64(b)))))
	case graph.F32:
		le.PutUint32(b, math.Float32bits(choose(op, math.Float32frombits(le.Uint32(a)), math.Float32frombits(le.Uint32(b)))))
	case graph.F16:
		x, y := array.Half(le.Uint16(a)), array.Half(le.Uint16(b))
		le.PutUint16(b, uint16(array.HalfOf(choose(op, x.Float32(), y.Float32()))))
	case graph.BF16:
		x, y := array.Brain(le.Uint16(a)), array.Brain(le.Uint16(b))
		le.PutUint16(b, uint16(array.BrainOf(choose(op, x.Float32(), y.Float32()))))
	case graph.I32:
		le.PutUint32(b, uint32(choose(op, int32(le.Uint32(a)), int32(le.Uint32(b)))))
	case graph.U32:
		le.PutUint32(b, choose(op, le.Uint32(a), le.Uint32(b)))
	case graph.I64:
		le.PutUint64(b, uint64(choose(op, int64(le.Uint64(a)), int64(le.Uint64(b)))))
	case graph.U8:
		b[0] = choose(op, a[0], b[0])
	case graph.Bool:
		b[0] = min(1, choose(op, a[0], b[0]))
	}
}

func choose[E int32 | uint32 | int64 | uint8 | float32 | float64](op string, a, b E) E {
	switch op {
	case "all_max":
		return max(a, b)
	case "all_min":
		return min(a, b)
	}
	return a + b
}

func tasks() []task {
	var ts []task
	for k, d := range []string{"u8", "bool", "u32", "i32", "i64", "f16", "bf16", "f32", "f64"} {
		for _, op := range []string{"all_sum", "all_max", "all_min", "all_gather", "send_recv"} {
			for _, count := range []int{0, 1, 2, 3, 130, 4099} {
				ts = append(ts, task{op, d, count, uint64(k + count), 0})
			}
		}
	}
	return append(ts, task{Op: "barrier", DType: "f32"})
}

func check(t *testing.T, comms []jaccl.Communicator, conns int, ts []task) {
	t.Helper()
	wants := make([][]byte, len(ts)) // of all ranks, but for send_recv
	for i, o := range ts {
		if o.Op != "send_recv" {
			wants[i] = expected(o, len(comms), conns, 0)
		}
	}
	var wg sync.WaitGroup
	for r, m := range comms {
		wg.Go(func() {
			for i, o := range ts {
				want := wants[i]
				if o.Op == "send_recv" {
					if len(comms) == 1 {
						continue
					}
					want = expected(o, len(comms), conns, r)
				}
				got, err := o.run(t.Context(), m.World(), i)
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
					m.Fail(err)
					return
				}
				if !bytes.Equal(got, want) {
					t.Errorf("rank %d: %+v differs from what the ring's order gives", r, o)
				}
			}
		})
	}
	wg.Wait()
}

func TestOperations(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for conns := 1; conns <= 2; conns++ {
			t.Run(fmt.Sprintf("%d ranks, %d connections", n, conns), func(t *testing.T) {
				check(t, open(t, n, conns, jaccl.Options{}), conns, tasks())
			})
		}
	}
}

// The suite of all transports, as far as MLX's ring has its operations: between
// neighbours.
func TestConformance(t *testing.T) {
	for _, conns := range []int{1, 2} {
		jaccltest.WorldConformance(t, func(t *testing.T, n int) []jaccl.Communicator { return open(t, n, conns, jaccl.Options{}) },
			func(name string, d graph.DType, far, size int) bool {
				switch name {
				case "all_sum", "all_max", "all_min", "all_gather", "barrier":
					return true
				case "send_recv", "send":
					return size > 1 && (far == 1 || far == size-1)
				}
				return false
			})
	}
}

// Several lanes, and segments of several packets.
func TestLarge(t *testing.T) {
	const quarter = 262144
	for _, n := range []int{2, 3} {
		check(t, open(t, n, 2, jaccl.Options{}), 2, []task{
			{"all_sum", "f32", n*quarter/2 + 1, 1, 0}, {"all_sum", "bf16", n*quarter - 1, 2, 0}, {"all_sum", "u8", 4*n*quarter + 3, 3, 0},
			{"all_gather", "u8", 2*quarter + 1, 4, 0}, {"all_gather", "u8", 4*quarter + 1, 5, 0}, {"all_gather", "f64", quarter/8 - 1, 6, 0},
			{"send_recv", "u8", 3*quarter + 1, 7, 0}, {"all_max", "f16", n * quarter, 8, 0}, {"all_sum", "f32", n * quarter / 2, 9, 0},
		})
	}
}

// Ranks are bit-equal where an element of a buffer lies anywhere.
func TestUnaligned(t *testing.T) {
	comms := open(t, 2, 1, jaccl.Options{})
	var wg sync.WaitGroup
	for r, m := range comms {
		wg.Go(func() {
			for seq, d := range []string{"f32", "bf16", "i64"} {
				o := task{Op: "all_sum", DType: d, Count: 3000, Seed: 5}
				src, dst := append([]byte{0}, o.input(r)...)[1:], make([]byte, 1+3000*o.dtype().Size())[1:]
				if err := m.World().AllSum(t.Context(), collective.Call{Op: "all_sum", Seq: seq, DType: o.dtype()}, dst, src); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(dst, expected(o, 2, 1, r)) {
					t.Errorf("rank %d: another sum of %s", r, d)
				}
			}
		})
	}
	wg.Wait()
}

// Send and Recv apart, to both neighbours.
func TestSendRecv(t *testing.T) {
	for _, n := range []int{2, 3} {
		comms := open(t, n, 2, jaccl.Options{})
		var wg sync.WaitGroup
		for r, m := range comms {
			wg.Go(func() {
				for _, way := range []int{1, n - 1} {
					in, out := task{DType: "u8", Count: 5000, Seed: 1}.input(r), make([]byte, 5000)
					err := errors.Join(
						m.World().Send(t.Context(), collective.Call{Op: "send"}, (r+way)%n, in),
						m.World().Recv(t.Context(), collective.Call{Op: "recv"}, (r+n-way)%n, out))
					if err != nil {
						t.Error(err)
					}
					if want := (task{DType: "u8", Count: 5000, Seed: 1}).input((r + n - way) % n); !bytes.Equal(out, want) {
						t.Errorf("rank %d of %d did not get what rank %d sent", r, n, (r+n-way)%n)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestNaNWins(t *testing.T) {
	comms := open(t, 3, 1, jaccl.Options{})
	var wg sync.WaitGroup
	for r, m := range comms {
		wg.Go(func() {
			for seq, op := range []string{"all_max", "all_min"} {
				b := make([]byte, 4*9)
				for i := range 9 {
					x := float32(i - r)
					if i%3 == r {
						x = float32(math.NaN())
					}
					binary.NativeEndian.PutUint32(b[4*i:], math.Float32bits(x))
				}
				c := collective.Call{Op: op, Seq: seq, DType: graph.F32}
				run := map[string]func(context.Context, collective.Call, []byte, []byte) error{"all_max": m.World().AllMax, "all_min": m.World().AllMin}[op]
				if err := run(t.Context(), c, b, b); err != nil {
					t.Error(err)
				}
				for i := range 9 {
					if x := math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])); x == x {
						t.Errorf("rank %d: element %d of %s is %v, want NaN", r, i, op, x)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestUnsupported(t *testing.T) {
	comms := open(t, 4, 1, jaccl.Options{})
	g, ctx := comms[0].World(), t.Context()
	_, among := comms[0].Among([]int{0, 1})
	_, order := comms[0].Group([]int{1, 0, 2, 3})
	_, split := g.Split(ctx, collective.Call{Op: "split"}, 0, 0)
	for name, err := range map[string]error{
		"groups":                 among,
		"all 4 ranks in order":   order,
		"split":                  split,
		"reduce_scatter":         g.ReduceScatter(ctx, collective.Call{Op: "reduce_scatter"}, nil, nil),
		"all_to_all":             g.AllToAll(ctx, collective.Call{Op: "all_to_all"}, nil, nil),
		"lengths":                g.AllGatherV(ctx, collective.Call{Op: "all_gather_v"}, nil, nil),
		"broadcast":              g.Broadcast(ctx, collective.Call{Op: "broadcast"}, 0, nil),
		"no neighbours":          g.Send(ctx, collective.Call{Op: "send"}, 2, nil),
		"are ranks 3 and 1":      g.Recv(ctx, collective.Call{Op: "recv"}, 2, nil),
		"ranks that are no neig": g.SendRecv(ctx, collective.Call{Op: "send_recv"}, 1, nil, 2, nil),
	} {
		if !errors.Is(err, jaccl.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error that says %q and wraps ErrUnsupported", err, name)
		}
	}
	check(t, comms, 1, []task{{"all_sum", "f32", 9, 1, 0}}) // nothing was sent
}

// A ring so long that MLX does not pad.
func TestUnsupportedPadding(t *testing.T) {
	for _, c := range []struct {
		ranks int
		d     graph.DType
		want  error
	}{{128, graph.F64, jaccl.ErrLost}, {129, graph.F64, jaccl.ErrUnsupported}, {1024, graph.U8, jaccl.ErrLost}, {1025, graph.U8, jaccl.ErrUnsupported}} {
		nodes := addresses(t, 2, 1)
		for r := 2; r < c.ranks; r++ {
			nodes = append(nodes, []string{fmt.Sprintf("nowhere:%d", r)})
		}
		nodes[c.ranks-1], nodes[1] = nodes[1], nodes[c.ranks-1]
		l, err := net.Listen("tcp", nodes[0][0])
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			if a, err := l.Accept(); err == nil {
				a.Close()
			}
			l.Close()
			if b := dial(t, nodes[c.ranks-1][0]); b != nil {
				b.Close()
			}
		})
		m, err := ring.Connect(t.Context(), nodes, c.ranks-1, jaccl.Options{})
		wg.Wait()
		require.NoError(t, err)
		b := make([]byte, 8)[:c.d.Size()]
		err = m.World().AllSum(t.Context(), collective.Call{Op: "all_sum", DType: c.d}, b, b)
		if !errors.Is(err, c.want) {
			t.Errorf("%d ranks, %s: %v, want %v", c.ranks, c.d, err, c.want)
		}
		require.NoError(t, m.Close())
	}
}
