package metal_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// lookups is a queue whose instruction 0 looks rows up, w[5,4] of ids[6], with memory for
// the results of several.
type lookups struct {
	runtime.Queue
	device *metal.Device
	bufs   [][]array.Array // for each, the buffers of the plan
}

func newLookups(t *testing.T, n int) *lookups {
	d := emulated(t, metal.Emulation{})
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.Embedding(tr.Input("w", graph.F32, 5, 4), tr.Input("ids", graph.I32, 6))}
	})
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: d})
	require.NoError(t, err)
	require.True(t, len(plan.Instrs) == 1 && plan.Instrs[0].On, "%s", plan)
	l := &lookups{device: d}
	l.Queue, err = d.Open(t.Context(), plan, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	alloc := func(b int) array.Array {
		mem, free, err := d.Alloc(int(plan.Bufs[b].Type.Bytes()))
		require.NoError(t, err)
		t.Cleanup(free)
		return array.Over(plan.Bufs[b].Type, mem)
	}
	w := alloc(plan.In[0].Buf)
	copy(w.Bytes(), random(1, 5, 4).Bytes())
	for range n {
		bufs := make([]array.Array, len(plan.Bufs))
		bufs[plan.In[0].Buf], bufs[plan.In[1].Buf], bufs[plan.Out[0].Buf] = w, alloc(plan.In[1].Buf), alloc(plan.Out[0].Buf)
		l.bufs = append(l.bufs, bufs)
	}
	return l
}

// hand hands over the k-th lookup, of id six times.
func (l *lookups) hand(t *testing.T, k int, id int32) uint64 {
	x := array.Data[int32](l.bufs[k][1])
	for i := range x {
		x[i] = id
	}
	require.NoError(t, l.Encode(0, l.bufs[k]))
	ticket, err := l.Commit()
	require.NoError(t, err)
	return ticket
}

// there reports whether the k-th lookup has been done.
func (l *lookups) there(k int) bool {
	out := l.bufs[k][len(l.bufs[k])-1].Float64s()
	return !math.IsNaN(out[0]) && !math.IsNaN(out[len(out)-1])
}

// A wait is for the segments up to its own: they are done, and later ones are not begun.
func TestWaitForSegments(t *testing.T) {
	l := newLookups(t, 4)
	ticket, err := l.Commit()
	require.NoError(t, err)
	require.Zero(t, ticket, "a segment of nothing")
	for k := range 4 {
		require.Equal(t, uint64(k+1), l.hand(t, k, int32(k)))
	}
	done := func(n int) {
		t.Helper()
		for k := range 4 {
			require.Equal(t, k < n, l.there(k), "lookup %d", k)
		}
	}
	done(0)
	require.NoError(t, l.Wait(t.Context(), 1))
	done(1)
	require.NoError(t, l.Wait(t.Context(), 3))
	done(3)
	require.NoError(t, l.Wait(t.Context(), 2)) // which is known
	done(3)
	require.NoError(t, l.Wait(t.Context(), 4))
	done(4)
	require.ErrorContains(t, l.Wait(t.Context(), 5), "segment 5 of 4")
}

// A mistake in arguments is the error of the wait that covers it, once, and not of a wait
// for segments before.
func TestFaultOfSegment(t *testing.T) {
	l := newLookups(t, 3)
	for range 2 {
		l.hand(t, 0, 1)
		l.hand(t, 1, 9)
		last := l.hand(t, 2, 4)
		require.NoError(t, l.Wait(t.Context(), last-2))
		var q *runtime.QueueError
		err := l.Wait(t.Context(), last-1)
		require.ErrorAs(t, err, &q)
		require.Equal(t, 0, q.Index)
		require.ErrorContains(t, err, "id 9 at [0], want 0 to 4")
		require.NoError(t, l.Wait(t.Context(), last))
	}
}

// Memory that the GPU does not see is an error of the instruction, and of nothing else.
func TestUnseenMemory(t *testing.T) {
	l := newLookups(t, 2)
	bufs := append([]array.Array{}, l.bufs[0]...)
	bufs[0] = random(1, 5, 4)
	require.ErrorContains(t, l.Encode(0, bufs), "the GPU does not see the 80 bytes of buffer 0")
	ticket := l.hand(t, 1, 2)
	require.NoError(t, l.Wait(t.Context(), ticket))
	require.True(t, l.there(1))
}

// A closed queue does nothing.
func TestClosedQueue(t *testing.T) {
	l := newLookups(t, 1)
	l.hand(t, 0, 1)
	require.NoError(t, l.Close())
	_, err := l.Commit()
	for _, err := range []error{l.Encode(0, l.bufs[0]), err, l.Wait(t.Context(), 1)} {
		require.ErrorContains(t, errors.Join(err), "the queue is closed")
	}
}

// A long segment is several command buffers, so that none of them runs for long, and one
// ticket, at whose end all of them have ended.
func TestLongSegment(t *testing.T) {
	l := newLookups(t, 100)
	for k := range 100 {
		x := array.Data[int32](l.bufs[k][1])
		for i := range x {
			x[i] = int32(k % 5)
		}
		require.NoError(t, l.Encode(0, l.bufs[k]))
	}
	require.Greater(t, l.device.Live()["MTLCommandBuffer"], 2)
	ticket, err := l.Commit()
	require.NoError(t, err)
	require.Equal(t, uint64(1), ticket)
	again, err := l.Commit()
	require.NoError(t, err)
	require.Equal(t, ticket, again)
	require.NoError(t, l.Wait(t.Context(), ticket))
	for k := range 100 {
		require.True(t, l.there(k), "lookup %d", k)
	}
	require.Equal(t, 0, l.device.Live()["MTLCommandBuffer"])
}
