package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl"
)

// Options configure a measurement. Every rank must pass the same.
type Options struct {
	Ops      []string // names returned by Ops; nil means all of them
	Min, Max int64    // sizes in bytes: Min, Min·Factor, and so on, up to Max
	Factor   int      // at least 2
	// Batches is the number of timings of each size. One timing is a batch of several
	// calls, which takes about Batch in all.
	Batches int
	Batch   time.Duration
	// Alloc returns zeroed memory for buffers; nil means Go's heap. With a
	// transport's shared memory, collectives work in place.
	Alloc func(n int) ([]byte, error)
}

// Row is the measurement of one operation at one size.
type Row struct {
	Transport string  `json:"transport"`
	Op        string  `json:"op"`
	Ranks     int     `json:"ranks"`
	Bytes     int64   `json:"bytes"`
	Calls     int     `json:"calls"`  // number of timed calls
	Micros    float64 `json:"us"`     // median over the batches; each batch counts with the slowest rank's time
	Best      float64 `json:"us_min"` // the fastest batch
	AlgGBs    float64 `json:"alg_gbs"`
	BusGBs    float64 `json:"bus_gbs"`
}

// Ops returns the names of the operations that Run measures.
func Ops() []string {
	return []string{"all_sum", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv", "barrier"}
}

// bus returns the traffic of each rank's connection as a fraction of an operation's size.
func bus(op string, n int) float64 {
	share := float64(n-1) / float64(n)
	switch op {
	case "all_sum":
		return 2 * share
	case "all_gather", "reduce_scatter", "all_to_all":
		return share
	case "barrier":
		return 0
	}
	return 1
}

// Run measures on the ranks of c; every rank calls it. It passes each row to report
// as soon as the row is complete; all ranks get the same rows. An operation that the
// transport does not support has no row.
func Run(ctx context.Context, transport string, c jaccl.Communicator, o Options, report func(Row)) error {
	if err := o.Check(); err != nil {
		return err
	}
	if want := int64(4 * c.Size()); o.Max < want {
		return fmt.Errorf("measure: sizes up to %d bytes, want at least %d: an element for each of %d ranks", o.Max, want, c.Size())
	}
	ops := o.Ops
	if ops == nil {
		ops = Ops()
	}
	alloc := o.Alloc
	if alloc == nil {
		alloc = func(n int) ([]byte, error) { return make([]byte, n), nil }
	}
	src, err := alloc(int(o.Max))
	if err != nil {
		return err
	}
	dst, err := alloc(int(o.Max))
	if err != nil {
		return err
	}
	fill(src)
	fill(dst)
	r := &run{c: c, g: c.World(), o: o, src: src, dst: dst}
	for _, op := range ops {
		for size := o.Min; size <= o.Max; size *= int64(o.Factor) {
			row, err := r.measure(ctx, op, size)
			if errors.Is(err, jaccl.ErrUnsupported) {
				break
			}
			if err != nil {
				return fmt.Errorf("measure: %s of %d bytes: %w", op, size, err)
			}
			row.Transport = transport
			report(row)
			if op == "barrier" {
				break
			}
		}
	}
	return nil
}

// fill writes f32 numbers of 0.747 to b. Unwritten memory is a single page of zeros, so
// reading it would cost no more than the first-level cache.
func fill(b []byte) {
	for i := range b {
		b[i] = 0x3f
	}
}

// Check returns an error for options invalid for any number of ranks.
func (o Options) Check() error {
	for _, op := range o.Ops {
		if !slices.Contains(Ops(), op) {
			return fmt.Errorf("measure: there is no operation %s, want some of %s", quoted.Text(op), strings.Join(Ops(), ", "))
		}
	}
	switch {
	case o.Min < 4 || o.Max < o.Min:
		return fmt.Errorf("measure: sizes of %d to %d bytes, want at least 4 and no less at the end", o.Min, o.Max)
	case o.Factor < 2:
		return fmt.Errorf("measure: sizes that grow by %d, want 2 or more", o.Factor)
	case o.Batches < 1:
		return fmt.Errorf("measure: %d batches, want 1 or more", o.Batches)
	case o.Batch <= 0:
		return fmt.Errorf("measure: batches of %v, want more than 0", o.Batch)
	}
	return nil
}

// run is one rank's part of a measurement.
type run struct {
	c        jaccl.Communicator
	g        jaccl.Group
	o        Options
	src, dst []byte
	seq      int
}

func (r *run) call(op string, d graph.DType, bytes int64) collective.Call {
	r.seq++
	return collective.Call{Op: op, Seq: r.seq, DType: d, Bytes: bytes}
}

// measure times an operation at a size.
func (r *run) measure(ctx context.Context, op string, size int64) (Row, error) {
	n := r.g.Size()
	step, moved := r.operation(op, size)
	for range 2 { // connections and buffers grow during the first calls
		if err := step(ctx); err != nil {
			return Row{}, err
		}
	}
	began := time.Now()
	if err := step(ctx); err != nil {
		return Row{}, err
	}
	one, err := r.slowest(ctx, time.Since(began).Seconds())
	if err != nil {
		return Row{}, err
	}
	calls := int(min(max(r.o.Batch.Seconds()/one, 1), 10000)) // the same on all ranks
	times := make([]float64, r.o.Batches)
	for b := range times {
		if err := r.g.Barrier(ctx, r.call("barrier", graph.NoDType, 0)); err != nil && !errors.Is(err, jaccl.ErrUnsupported) {
			return Row{}, err
		}
		began := time.Now()
		for range calls {
			if err := step(ctx); err != nil {
				return Row{}, err
			}
		}
		if times[b], err = r.slowest(ctx, time.Since(began).Seconds()/float64(calls)); err != nil {
			return Row{}, err
		}
	}
	row := Row{Op: op, Ranks: n, Bytes: moved, Calls: calls * len(times)}
	row.settle(times)
	return row, nil
}

// settle computes the row's fields from the seconds per call of each batch.
func (r *Row) settle(times []float64) {
	slices.Sort(times)
	median := times[len(times)/2]
	r.Micros, r.Best = median*1e6, times[0]*1e6
	r.AlgGBs = float64(r.Bytes) / median / 1e9
	r.BusGBs = r.AlgGBs * bus(r.Op, r.Ranks)
}

// slowest returns the largest of all ranks' seconds; all ranks get the same.
func (r *run) slowest(ctx context.Context, s float64) (float64, error) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], math.Float64bits(s))
	if err := r.g.AllMax(ctx, r.call("all_max", graph.F64, 8), b[:], b[:]); err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b[:])), nil
}

// operation returns the function to repeat and the actual size, which is whole
// elements for every rank.
func (r *run) operation(op string, size int64) (func(context.Context) error, int64) {
	n := int64(r.g.Size())
	part := max(size/n/4*4, 4)
	whole := part * n
	if op == "all_sum" || op == "broadcast" || op == "send_recv" {
		whole = size / 4 * 4
	}
	whole = min(whole, int64(len(r.src)))
	src, dst := r.src[:whole], r.dst[:whole]
	next, before := (r.g.Rank()+1)%r.g.Size(), (r.g.Rank()+r.g.Size()-1)%r.g.Size()
	switch op {
	case "all_sum":
		return func(ctx context.Context) error { return r.g.AllSum(ctx, r.call(op, graph.F32, whole), dst, src) }, whole
	case "all_gather":
		return func(ctx context.Context) error {
			return r.g.AllGather(ctx, r.call(op, graph.F32, whole), dst, src[:part])
		}, whole
	case "reduce_scatter":
		return func(ctx context.Context) error {
			return r.g.ReduceScatter(ctx, r.call(op, graph.F32, whole), dst[:part], src)
		}, whole
	case "all_to_all":
		d, s := cut(dst, int(part)), cut(src, int(part))
		return func(ctx context.Context) error { return r.g.AllToAll(ctx, r.call(op, graph.F32, whole), d, s) }, whole
	case "broadcast":
		return func(ctx context.Context) error { return r.g.Broadcast(ctx, r.call(op, graph.F32, whole), 0, dst) }, whole
	case "send_recv":
		return func(ctx context.Context) error {
			return r.g.SendRecv(ctx, r.call(op, graph.F32, whole), next, src, before, dst)
		}, whole
	}
	return func(ctx context.Context) error { return r.g.Barrier(ctx, r.call("barrier", graph.NoDType, 0)) }, 0
}

func cut(b []byte, part int) [][]byte {
	var out [][]byte
	for len(b) >= part {
		out, b = append(out, b[:part:part]), b[part:]
	}
	return out
}

// Copy measures an upper bound for exchanges among ranks of one process: one goroutine
// per rank copies as many bytes as an all_to_all moves. The transport of its rows is
// "copy".
func Copy(ranks int, o Options, report func(Row)) error {
	if err := o.Check(); err != nil {
		return err
	}
	src, dst := make([][]byte, ranks), make([][]byte, ranks)
	for i := range src {
		src[i], dst[i] = make([]byte, o.Max), make([]byte, o.Max)
		fill(src[i])
		fill(dst[i])
	}
	for size := o.Min; size <= o.Max; size *= int64(o.Factor) {
		row := Row{Transport: "copy", Op: "all_to_all", Ranks: ranks, Bytes: size}
		var calls int
		times := make([]float64, 0, o.Batches)
		for b := -1; b < o.Batches; b++ { // the first batch determines the number of calls per batch
			n := max(calls, 4)
			began := time.Now()
			var wg sync.WaitGroup
			for i := range src {
				wg.Go(func() {
					for range n {
						copy(dst[i][:size], src[i][:size])
					}
				})
			}
			wg.Wait()
			each := time.Since(began).Seconds() / float64(n)
			if b < 0 {
				calls = int(min(max(o.Batch.Seconds()/each, 1), 100000))
				continue
			}
			times = append(times, each)
			row.Calls += n
		}
		row.settle(times)
		report(row)
	}
	return nil
}
