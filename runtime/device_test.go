package runtime_test

import (
	"bytes"
	"errors"
	"fmt"
	gort "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/late"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// except leaves instructions with these names to the host.
func except(names ...string) func(*lowering.Plan, int) string {
	return func(p *lowering.Plan, i int) string {
		if slices.Contains(names, p.Instrs[i].Name()) {
			return "the test wants it so"
		}
		return ""
	}
}

// on returns a session of p whose plan is made for d.
func on(t *testing.T, d *late.Device, p *graph.Program, s toy.Setup, o runtime.Options) *runtime.Session {
	s.Target, o.Device = d, d
	return open(t, plan(t, p, s), o)
}

// collected waits until only this number of bytes of the device is not freed.
func collected(t *testing.T, d *late.Device, bytes int) {
	t.Helper()
	for range 200 {
		gort.GC()
		if d.Count().Bytes == bytes {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d bytes of the device's memory are in use, want %d", d.Count().Bytes, bytes)
}

// A hundred steps of training on a device, with donated weights, give the host's numbers,
// whichever instructions the device runs.
func TestTrainingOnDevice(t *testing.T) {
	const steps = 100
	for _, mesh := range []string{"", "a=2"} {
		run := func(why func(*lowering.Plan, int) string, beside bool, donate map[string]int) (loss []float64, p array.Array) {
			setup := toy.Setup{Mesh: mesh, Place: places(mesh, "p", "m", "x"), Donate: donate, Chunk: 3}
			var s *runtime.Session
			if why == nil {
				s = open(t, plan(t, train(t), setup), runtime.Options{})
			} else {
				s = on(t, &late.Device{Why: why, Beside: beside}, train(t), setup, runtime.Options{})
			}
			in, err := toy.Put(s, map[string]array.Array{"p": ramp(8), "m": f64(make([]float64, 8)...), "x": f64(1, 2, 3, 4, 5, 6, 7, 8)})
			require.NoError(t, err)
			out := make([]*runtime.Array, 3)
			for range steps {
				require.NoError(t, s.RunInto(t.Context(), in, out))
				loss = append(loss, values(t, out[0])...)
				in["p"], out[1] = out[1], in["p"]
				in["m"], out[2] = out[2], in["m"]
			}
			p, err = in["p"].Get()
			require.NoError(t, err)
			return loss, p
		}
		want, wantP := run(nil, false, nil)
		for name, why := range map[string]func(*lowering.Plan, int) string{
			"all on the device": nil,
			"sums on the host":  except("sum"),
			"odd":               func(_ *lowering.Plan, i int) string { return []string{"", "odd"}[i%2] },
			"even":              func(_ *lowering.Plan, i int) string { return []string{"even", ""}[i%2] },
		} {
			if why == nil {
				why = except()
			}
			for k, donate := range []map[string]int{nil, {"p": 1, "m": 2}, {"m": 2}} {
				got, gotP := run(why, k == 1, donate)
				require.Equal(t, want, got, "mesh %q, %s, donated %v", mesh, name, donate)
				if !array.Equal(gotP, wantP) {
					t.Errorf("mesh %q, %s: weights %v, want %v", mesh, name, gotP, wantP)
				}
			}
		}
	}
}

func TestDeviceOfAnotherPlan(t *testing.T) {
	d := &late.Device{}
	_, err := toy.Open(plan(t, train(t), toy.Setup{}), runtime.Options{Device: d})
	require.EqualError(t, err, "runtime: plan p is made for the host, want one for the device late; lower it with that as target")
	s := open(t, plan(t, train(t), toy.Setup{Target: d}), runtime.Options{}) // without a device, the host runs all
	out, err := toy.Eval(t.Context(), s, map[string]array.Array{"p": ramp(8), "m": ramp(8), "x": ramp(8)})
	require.NoError(t, err)
	require.Len(t, out, 3)
	require.Zero(t, d.Count())
}

// What a device keeps for a session is freed when the session is closed, and results are
// freed when nobody refers to them any more.
func TestDeviceMemoryIsGivenBack(t *testing.T) {
	d := &late.Device{Why: except("square")}
	s := on(t, d, trace(t, energy(8)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}}, runtime.Options{})
	in, err := toy.Put(s, map[string]array.Array{"x": ramp(8), "w": ramp(8)})
	require.NoError(t, err)
	const inputs, results = 2 * (4 + 8) * 8, 2 * (1 + 4) * 8
	held := d.Count().Bytes - inputs // the arena
	require.Positive(t, held)
	out := step(t, s, in)
	want := values(t, out[1])
	require.Equal(t, held+inputs+results, d.Count().Bytes)
	for range 10 {
		step(t, s, in) // results that nobody keeps
	}
	collected(t, d, held+inputs+2*results) // out, and those of the last step
	s.Recycle(out[0])
	s.Close()
	require.Equal(t, uint64(2), uint64(d.Count().Closed))
	require.Equal(t, want, values(t, out[1]), "a result is gone with its session")
	collected(t, d, inputs+2*4*8)
	gort.KeepAlive(in)
	collected(t, d, 2*4*8) // out[1]
	gort.KeepAlive(out)
	collected(t, d, 0)
}

// Memory that is recycled after its session is closed goes back to the device at once, and the array is spent.
func TestRecycleAfterClose(t *testing.T) {
	d := &late.Device{Why: except("square")}
	s := on(t, d, trace(t, energy(8)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}}, runtime.Options{})
	in, err := toy.Put(s, map[string]array.Array{"x": ramp(8), "w": ramp(8)})
	require.NoError(t, err)
	out := step(t, s, in)
	s.Close()
	require.Positive(t, d.Count().Bytes)
	for range 2 {
		s.Recycle(out...)
		for _, a := range in {
			s.Recycle(a)
		}
		require.Zero(t, d.Count().Bytes)
	}
	_, err = s.Get(t.Context(), out[0])
	require.Error(t, err)
	gort.KeepAlive(s)
}

// Sessions that nobody closes free what they have too.
func TestDeviceMemoryOfForgottenSessions(t *testing.T) {
	d := &late.Device{}
	func() {
		comms, err := engine.Local(1, jaccl.Options{})
		require.NoError(t, err)
		s, err := runtime.Open(plan(t, trace(t, energy(8)), toy.Setup{Target: d}), comms, runtime.Options{Device: d})
		require.NoError(t, err)
		_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8), "w": ramp(8)})
		require.NoError(t, err)
	}()
	collected(t, d, 0)
	require.Equal(t, 1, d.Count().Closed)
}

// Arrays that the device does not see are copied: once while the same array is given
// again, and in every step if the caller may write to it.
func TestInputsThatTheDeviceDoesNotSee(t *testing.T) {
	d := &late.Device{}
	p := trace(t, energy(8))
	s := on(t, d, p, toy.Setup{}, runtime.Options{})
	host := func(x array.Array) *runtime.Array {
		a, err := runtime.Put(x, s.Plan().Mesh, s.Plan().In[0].Spec, s.Local())
		require.NoError(t, err)
		return a
	}
	check := func(in map[string]*runtime.Array, allocs int) {
		t.Helper()
		before := d.Count().Alloc
		out := step(t, s, in)
		x, err := in["x"].Get()
		require.NoError(t, err)
		w, err := in["w"].Get()
		require.NoError(t, err)
		for i, y := range values(t, out[1]) {
			require.Equal(t, x.Float64s()[i]*w.Float64s()[i], y)
		}
		s.Recycle(out...)
		require.Equal(t, allocs, d.Count().Alloc-before, "memory that was allocated")
	}
	in := map[string]*runtime.Array{"x": host(ramp(8)), "w": host(ramp(8))}
	check(in, 4) // two results
	check(in, 0)
	in["w"] = host(f64(1, 2, 3, 4, 5, 6, 7, 8))
	check(in, 0)
	array.Data[float64](toy.Part(t, in["w"], 0))[0] = 9
	check(in, 0)
	array.Data[float64](toy.Part(t, in["w"], 0))[0] = 10 // Part has lent it, so nobody knows about this write
	check(in, 0)
	own, err := s.Put("w", ramp(8))
	require.NoError(t, err)
	in["w"] = own
	check(in, 0) // the copy's memory is free now
	other := on(t, d, p, toy.Setup{}, runtime.Options{})
	if in["x"], err = other.Put("x", f64(3, 1, 4, 1, 5, 9, 2, 6)); err != nil {
		t.Fatal(err)
	}
	check(in, 0) // the device sees another session's memory too
}

// When an input is donated, its copy is used up with it.
func TestDonatedInputThatTheDeviceDoesNotSee(t *testing.T) {
	d := &late.Device{}
	s := on(t, d, train(t), toy.Setup{Donate: map[string]int{"p": 1, "m": 2}, Chunk: 4}, runtime.Options{})
	h := open(t, plan(t, train(t), toy.Setup{Donate: map[string]int{"p": 1, "m": 2}, Chunk: 4}), runtime.Options{})
	var want [2]map[string]*runtime.Array
	for i, s := range []*runtime.Session{h, s} {
		in, err := toy.Put(h, map[string]array.Array{"p": ramp(8), "m": ramp(8), "x": ramp(8)})
		require.NoError(t, err)
		for range 3 {
			out := step(t, s, in)
			in["p"], in["m"] = out[1], out[2]
		}
		want[i] = in
	}
	require.Equal(t, values(t, want[0]["p"]), values(t, want[1]["p"]))
	require.Equal(t, values(t, want[0]["m"]), values(t, want[1]["m"]))
}

// A copy of a donated input then belongs to the result: the next copy does not overwrite it.
func TestCopiesOfDonatedInputsAreGivenAway(t *testing.T) {
	s := on(t, &late.Device{}, train(t), toy.Setup{Donate: map[string]int{"p": 1}, Chunk: 4}, runtime.Options{})
	require.True(t, s.Plan().Donated[0].InPlace)
	give := func(p array.Array) *runtime.Array {
		in, err := toy.Put(s, map[string]array.Array{"m": ramp(8), "x": ramp(8)})
		require.NoError(t, err)
		in["p"], err = runtime.Put(p, s.Plan().Mesh, s.Plan().In[0].Spec, s.Local())
		require.NoError(t, err)
		return step(t, s, in)[1]
	}
	first := give(ramp(8))
	want := values(t, first)
	give(f64(1, 2, 3, 4, 5, 6, 7, 8))
	require.Equal(t, want, values(t, first), "a later step wrote over a result")
}

// leasing is a communicator that leases memory to its caller.
type leasing struct {
	collective.Communicator
	t        *testing.T
	released *int
}

func (l *leasing) Lease(n int) ([]byte, func() error, error) {
	return array.New(graph.T(graph.U8, n)).Bytes(), func() error { *l.released++; return nil }, nil
}

// A device works in the memory that ranks share, or in its own memory if it cannot see that.
func TestLeasedMemoryOnDevice(t *testing.T) {
	for _, refuse := range []error{nil, errors.New("not at a page")} {
		d := &late.Device{Why: except("square"), Refuse: refuse}
		l := plan(t, trace(t, energy(8)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}, Target: d})
		local, err := engine.Local(2, jaccl.Options{})
		require.NoError(t, err)
		released := 0
		var comms []collective.Communicator
		for _, c := range local {
			comms = append(comms, &leasing{c, t, &released})
		}
		s, err := runtime.Open(l, comms, runtime.Options{Device: d})
		require.NoError(t, err)
		adopted, own := 2, 0
		if refuse != nil {
			adopted, own = 0, 2
		}
		require.Equal(t, late.Uses{Alloc: own, Adopt: adopted, Bytes: 2 * int(l.Arena)}, d.Count())
		_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8), "w": ramp(8)})
		require.NoError(t, err)
		s.Close()
		require.Equal(t, 2, released)
		collected(t, d, 0)
	}
}

// A device's work is on a track of its own, and the trace shows where the host waits for it.
func TestTraceOfDevice(t *testing.T) {
	var buf bytes.Buffer
	tr := runtime.NewTrace(&buf)
	s := on(t, &late.Device{Why: except("sum")}, trace(t, energy(8)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}}, runtime.Options{Trace: tr})
	for range 2 {
		_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8), "w": ramp(8)})
		require.NoError(t, err)
	}
	require.NoError(t, tr.Close())
	events := traced(t, buf.Bytes())
	track := map[int]string{}
	var got []string
	for _, e := range events {
		if e.Name == "thread_name" {
			track[e.Tid] = e.Args["name"].(string)
		}
	}
	for _, e := range events {
		if e.Ph == "X" && strings.HasPrefix(track[e.Tid], "rank 1") {
			line := track[e.Tid] + ": " + e.Name
			if e.Cat == "segment" {
				line += fmt.Sprint(" ", e.Args["segment"], " ", e.Args["count"], " ", e.Args["instructions"])
				if lines := e.Args["lines"].([]any); len(lines) != 3 {
					t.Errorf("lines %v, want one for each of 3 instructions", lines)
				}
			}
			got = append(got, line)
		}
	}
	slices.Sort(got)
	require.Equal(t, []string{
		"rank 1 late: 3 instructions, shard_part to square 1 3 [shard_part mul square]", "rank 1 late: 3 instructions, shard_part to square 2 3 [shard_part mul square]",
		"rank 1: all_sum", "rank 1: all_sum", "rank 1: p step 0", "rank 1: p step 1", "rank 1: sum", "rank 1: sum", "rank 1: wait", "rank 1: wait",
	}, got, "%s", s.Plan())
}

// watch notes the instructions that an Observer is shown.
type watch struct{ before, after []int }

func (w *watch) Before(k runtime.Observed) { w.before = append(w.before, k.Index) }
func (w *watch) After(k runtime.Observed)  { w.after = append(w.after, k.Index) }

// With options that look at every instruction, the host waits for the device after each.
func TestDeviceWatched(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F64, 8), tr.Input("y", graph.F64, 8)
		q := toy.Scale(3, toy.Div(x, y))
		return []*graph.Value{toy.Scale(2, toy.Flatten(q)), q}
	})
	one := f64(1, 1, 1, 1, 1, 1, 1, 1)
	zero := f64(1, 1, 1, 1, 1, 0, 1, 1)
	for _, chunk := range []int{0, 8} {
		for _, why := range []func(*lowering.Plan, int) string{except(), except("scale")} {
			var w watch
			d := &late.Device{Why: why}
			s := on(t, d, p, toy.Setup{Chunk: chunk, Donate: map[string]int{"x": 1}}, runtime.Options{Finite: true, Poison: true, Observe: &w})
			out, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": one, "y": one})
			require.NoError(t, err)
			require.Equal(t, []float64{3, 3, 3, 3, 3, 3, 3, 3}, out[1].Float64s())
			require.Len(t, w.before, len(s.Plan().Instrs))
			require.Equal(t, w.before, w.after)
			_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": one, "y": zero})
			var nf *runtime.NotFiniteError
			require.ErrorAs(t, err, &nf)
			require.Equal(t, 5, nf.Index)
			require.ErrorContains(t, err, "instruction 0 of plan p")
		}
	}
}
