package world_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// vars reads "A=1 B=2".
func vars(s string) func(string) string {
	m := map[string]string{}
	for _, f := range strings.Fields(s) {
		name, value, _ := strings.Cut(f, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func meshOf(t *testing.T, s string) *sharding.Mesh {
	t.Helper()
	m, err := sharding.ParseMesh(s)
	require.NoError(t, err)
	return &m
}

// address is one at which nobody listens.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// job returns the environment of rank i of n, at that address.
func job(i, n int, at string) string {
	return fmt.Sprintf("GOMOE_RANK=%d GOMOE_SIZE=%d GOMOE_COORDINATOR=%s GOMOE_SECRET=0123456789abcdef", i, n, at)
}

// worlds runs fn for every process of a job, here as a World each, which is closed
// afterwards. Each has its own cfg, whose environment is set.
func worlds(t *testing.T, n int, cfg func(i int) world.Config, fn func(i int, w *world.World) error) []error {
	t.Helper()
	at := address(t)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var w world.World
			c := cfg(i)
			env := job(i, n, at)
			if c.Getenv != nil {
				env += " " + c.Getenv("")
			}
			c.Getenv = vars(env)
			if c.Deadline == 0 {
				c.Deadline = time.Minute
			}
			if errs[i] = w.Setup(t.Context(), c); errs[i] == nil {
				errs[i] = fn(i, &w)
			}
			if err := errors.Join(w.Close(), w.Close()); err != nil {
				t.Errorf("process %d: close: %v", i, err)
			}
		})
	}
	wg.Wait()
	return errs
}

func ok(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
}

// layered is an expert-parallel program with its inputs' placements.
func layered(t *testing.T) (*graph.Program, map[string]sharding.Spec, map[string]array.Array) {
	t.Helper()
	return layeredBy(t, ep.Rows)
}

// layeredBy is layered with rows that come home in the given way.
func layeredBy(t *testing.T, exchange ep.Exchange) (*graph.Program, map[string]sharding.Spec, map[string]array.Array) {
	t.Helper()
	p, err := graph.Trace("moe", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8, 4)
		router := t.Input("router", graph.F32, 4, 4)
		w := t.Input("w", graph.F32, 4, 4, 4)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(x, router), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Exchange: exchange}, experts)
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMul(r, rows, w)
		y = primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0))
		out := primitives.Combine(r, y)
		return []*graph.Value{out.Named("out"), primitives.ReduceSum(out, 0).Named("sum")}
	})
	require.NoError(t, err)
	in := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		x := array.Data[float32](a)
		for i := range x {
			x[i] = float32((i*7919+len(v.Name)*31)%101)/50 - 1
		}
		in[v.Name] = a
	}
	return p, map[string]sharding.Spec{"x": sharding.Split("ep"), "w": sharding.Split("ep")}, in
}

// A program gives the same bits in one process and in several, on every transport,
// and every process gets all of the results.
func TestCompute(t *testing.T) {
	p, place, in := layered(t)
	for _, c := range []struct{ mesh, transport, want string }{
		{"ep=4", "tcp", "tcp"}, {"ep=4", "shm", "shm"}, {"ep=2", "auto", "shm"}, {"ep=2,dp=2", "", "shm"},
	} {
		t.Run(c.mesh+" "+c.transport, func(t *testing.T) {
			mesh := meshOf(t, c.mesh)
			want, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: *mesh, Place: place}, in)
			require.NoError(t, err)
			n := mesh.Ranks()
			ok(t, worlds(t, n, func(int) world.Config {
				return world.Config{Mode: world.PerProcess, Transport: c.transport, Mesh: mesh}
			}, func(i int, w *world.World) error {
				info, err := w.Info()
				if err != nil {
					return err
				}
				if info.Rank != i || info.Size != n || info.Mode != world.PerProcess || info.Transport != c.want || len(info.Local) != 1 || info.Local[0] != i || info.First() != (i == 0) {
					t.Errorf("process %d: %+v, want transport %s", i, info, c.want)
				}
				if err := w.Warmup(t.Context()); err != nil {
					return err
				}
				j, err := gomoe.Open(t.Context(), p, gomoe.Config{World: w, Mesh: *mesh, Place: place})
				if err != nil {
					return err
				}
				defer j.Close()
				if local := j.Local(); len(local) != 1 || local[0] != i {
					t.Errorf("process %d runs ranks %v", i, local)
				}
				for range 3 {
					got, err := j.Step(t.Context(), in)
					if err != nil {
						return err
					}
					for k := range want {
						if !array.Equal(got[k], want[k]) {
							t.Errorf("process %d: result %d is\n%v\nwant\n%v", i, k, got[k], want[k])
						}
					}
				}
				// Closing a job leaves the World open.
				if err := j.Close(); err != nil {
					return err
				}
				any, err := w.Any(t.Context(), i == n-1)
				if err == nil && !any {
					t.Errorf("process %d: nobody says yes", i)
				}
				if any, err = w.Any(t.Context(), false); err == nil && any {
					t.Errorf("process %d: somebody says yes", i)
				}
				if err != nil {
					return err
				}
				return same(t, w, i, n)
			}))
		})
	}
}

// same has the last of n processes state other facts than the others, of which every
// process learns the first that differs, and then all state the same.
func same(t *testing.T, w *world.World, i, n int) error {
	facts := map[string]string{"-a": "1", "-lr": "3e-3", "text": strings.Repeat("x", 1000)}
	if err := w.Same(t.Context(), facts); err != nil {
		return err
	}
	others := map[int]string{1: "", 2: "rank 0 has", 3: "ranks 0 and 1 have", 4: "ranks 0, 1 and 2 have"}[n]
	last := fmt.Sprintf("rank %d has", n-1)
	for _, c := range []struct{ name, value, want string }{
		{"-lr", "4e-3", fmt.Sprintf(`gomoe: -lr differs between ranks: %s "3e-3", %s "4e-3"; start all ranks with the same`, others, last)},
		{"-m", "", fmt.Sprintf(`gomoe: -m differs between ranks: %s nothing, %s ""; start all ranks with the same`, others, last)},
		{"-a", strings.Repeat("long", 100), fmt.Sprintf(`gomoe: -a differs between ranks: %s "1", %s "%s…"; start`, others, last, strings.Repeat("long", 20))},
	} {
		mine := maps.Clone(facts)
		if i == n-1 {
			mine[c.name] = c.value
		}
		err := w.Same(t.Context(), mine)
		if n == 1 && err != nil || n > 1 && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("process %d of %d: %v, want %s", i, n, err, c.want)
		}
	}
	return w.Same(t.Context(), facts)
}

// Without a job in the environment, all ranks are in the process.
func TestInProcess(t *testing.T) {
	p, place, in := layered(t)
	mesh := meshOf(t, "ep=4")
	for _, cfg := range []world.Config{{}, {Mesh: mesh}, {Mode: world.InProcess, Transport: "local", Mesh: mesh}} {
		var w world.World
		cfg.Getenv = vars("")
		require.NoError(t, w.Setup(t.Context(), cfg))
		require.NoError(t, w.Warmup(t.Context()))
		info, err := w.Info()
		require.NoError(t, err)
		if info.Mode != world.InProcess || info.Transport != "local" || !info.First() {
			t.Errorf("%v: %+v", cfg, info)
		}
		_, err = gomoe.Run(t.Context(), p, gomoe.Config{World: &w, Mesh: *mesh, Place: place}, in)
		require.NoError(t, err)
		yes, err := w.Any(t.Context(), true)
		if err != nil || !yes {
			t.Errorf("%v: any: %v, %v", cfg, yes, err)
		}
		require.NoError(t, w.Same(t.Context(), map[string]string{"-lr": "1"}))
		require.NoError(t, w.Close())
	}
	var none *world.World
	info, err := none.Info()
	if err != nil || info.Mode != world.InProcess || info.Size != 1 || !info.First() {
		t.Errorf("a nil World: %+v, %v", info, err)
	}
	yes, err := none.Any(t.Context(), true)
	require.NoError(t, errors.Join(err, none.Same(t.Context(), map[string]string{"-lr": "1"}), none.Warmup(t.Context())))
	if all, err := none.Gather(t.Context(), []byte("mine")); err != nil || !yes || len(all) != 1 || string(all[0]) != "mine" {
		t.Errorf("a nil World: any: %v, gathered %q, %v", yes, all, err)
	}
}

// Groups follow from coordinates, not from ranks: of ep=2 inside and outside.
func TestGroup(t *testing.T) {
	for _, c := range []struct {
		mesh string
		axes []string
		want []string
	}{
		{"dp=2,ep=2", []string{"ep"}, []string{"[0 1]", "[0 1]", "[2 3]", "[2 3]"}},
		{"ep=2,dp=2", []string{"ep"}, []string{"[0 2]", "[1 3]", "[0 2]", "[1 3]"}},
		{"ep=2,dp=2", []string{"dp", "ep"}, []string{"[0 2 1 3]", "[0 2 1 3]", "[0 2 1 3]", "[0 2 1 3]"}},
		{"ep=2,dp=2", nil, []string{"[0]", "[1]", "[2]", "[3]"}},
	} {
		mesh := meshOf(t, c.mesh)
		gather := func(g jaccl.Group, rank int) string {
			all := make([]byte, g.Size())
			err := g.AllGather(t.Context(), collective.Call{Op: "all_gather", DType: graph.U8, Bytes: 1}, all, []byte{byte(rank)})
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(all)
		}
		ok(t, worlds(t, 4, func(int) world.Config { return world.Config{Transport: "tcp"} }, func(i int, w *world.World) error {
			gs, err := w.Group(*mesh, c.axes...)
			if err != nil {
				return err
			}
			if got := gather(gs[0], i); len(gs) != 1 || got != c.want[i] {
				t.Errorf("%s over %v: rank %d is in %s, want %s", c.mesh, c.axes, i, got, c.want[i])
			}
			return nil
		}))
		var w world.World
		require.NoError(t, w.Setup(t.Context(), world.Config{Mesh: mesh, Getenv: vars("")}))
		gs, err := w.Group(*mesh, c.axes...)
		require.NoError(t, err)
		require.Len(t, gs, 4)
		var wg sync.WaitGroup
		for i, g := range gs {
			wg.Go(func() {
				if got := gather(g, i); got != c.want[i] {
					t.Errorf("%s over %v: rank %d of one process is in %s, want %s", c.mesh, c.axes, i, got, c.want[i])
				}
			})
		}
		wg.Wait()
		_, err = w.Group(*mesh, "tp")
		require.ErrorContains(t, err, "has no axis tp")
		require.NoError(t, w.Close())
	}
}

// Before Setup and after Reset, everything says what to do. Setup again is a no-op
// with the same configuration and an error with another.
func TestLife(t *testing.T) {
	p, place, _ := layered(t)
	mesh := meshOf(t, "ep=4")
	var w world.World
	unready := func() {
		t.Helper()
		const want = "call Setup first"
		_, err := w.Info()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, w.Warmup(t.Context()), want)
		_, err = w.Group(*mesh, "ep")
		require.ErrorContains(t, err, want)
		_, err = w.Any(t.Context(), true)
		require.ErrorContains(t, err, want)
		_, err = gomoe.Open(t.Context(), p, gomoe.Config{World: &w, Mesh: *mesh, Place: place})
		require.ErrorContains(t, err, want)
		_, err = gomoe.Compile(t.Context(), p, gomoe.Config{World: &w, Mesh: *mesh, Place: place}) // needs no World, and decides nothing
		require.NoError(t, err)
	}
	unready()
	require.NoError(t, w.Reset())
	cfg := world.Config{Mesh: mesh, Getenv: vars("")}
	require.NoError(t, w.Setup(t.Context(), cfg))
	require.NoError(t, w.Setup(t.Context(), world.Config{Mesh: meshOf(t, "ep=4"), Getenv: vars("")}))
	err := w.Setup(t.Context(), world.Config{Mesh: meshOf(t, "ep=2")})
	require.EqualError(t, err, `gomoe: the World is set up as {mode auto, transport auto, mesh "ep=4"}, and Setup is called with {mode auto, transport auto, mesh "ep=2"}; call Reset first, or make another World`)
	_, err = gomoe.Open(t.Context(), p, gomoe.Config{World: &w, Mesh: *meshOf(t, "ep=2"), Place: place})
	require.ErrorContains(t, err, `mesh "ep=2" of a job in a World that was set up for the mesh "ep=4"`)
	require.NoError(t, w.Reset())
	unready()
	require.NoError(t, w.Setup(t.Context(), world.Config{Mesh: meshOf(t, "ep=2"), Getenv: vars("")}))
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	unready()
	require.ErrorContains(t, w.Setup(t.Context(), cfg), "the World is closed")
}

// A job is set up again after Reset, also with another transport, and while others
// have yet to reset: ranks take turns to be late.
func TestAgain(t *testing.T) {
	at := address(t)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			var w world.World
			defer w.Close()
			for turn, transport := range []string{"tcp", "shm", "tcp"} {
				err := w.Setup(t.Context(), world.Config{Transport: transport, Deadline: time.Minute, Log: io.Discard, Getenv: vars(job(i, 3, at))})
				if err == nil {
					err = w.Warmup(t.Context())
				}
				if turn == i {
					time.Sleep(100 * time.Millisecond)
				}
				if err = errors.Join(err, w.Reset()); err != nil {
					t.Errorf("process %d: %s: %v", i, transport, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Once a job is set up, nobody can connect to its ranks any more.
func TestDoorsClose(t *testing.T) {
	for _, transport := range []string{"tcp", "shm", "ring"} {
		at := address(t)
		var up, wg sync.WaitGroup
		up.Add(2)
		for i := range 2 {
			wg.Go(func() {
				var w world.World
				defer w.Close()
				err := w.Setup(t.Context(), world.Config{Transport: transport, Deadline: time.Minute, Log: io.Discard, Getenv: vars(job(i, 2, at))})
				up.Done()
				if err != nil {
					t.Errorf("process %d: %s: %v", i, transport, err)
					return
				}
				up.Wait()
				if c, err := net.Dial("tcp", at); err == nil {
					c.Close()
					t.Errorf("process %d: %s: rank 0 still listens", i, transport)
				}
				if err := w.Warmup(t.Context()); err != nil {
					t.Errorf("process %d: %s: %v", i, transport, err)
				}
			})
		}
		wg.Wait()
	}
}

// Ranks that some of the others have not met with, in a set-up that failed, meet all the
// same when all try again.
func TestUneven(t *testing.T) {
	at := address(t)
	ws := make([]world.World, 3)
	setup := func(ctx context.Context, i int) error {
		return ws[i].Setup(ctx, world.Config{Transport: "tcp", Deadline: time.Minute, Log: io.Discard, Getenv: vars(job(i, 3, at))})
	}
	together := func() {
		t.Helper()
		errs := make([]error, len(ws))
		var wg sync.WaitGroup
		for i := range ws {
			wg.Go(func() {
				if errs[i] = setup(t.Context(), i); errs[i] == nil {
					errs[i] = ws[i].Warmup(t.Context())
				}
				errs[i] = errors.Join(errs[i], ws[i].Reset())
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
	}
	for _, alone := range []int{0, 1, 0, 2} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		require.ErrorIs(t, setup(ctx, alone), context.DeadlineExceeded)
		cancel()
		together()
	}
	for i := range ws {
		require.NoError(t, ws[i].Close())
	}
}

// A rank that fails in a step is known to the others, with the cause.
func TestFailure(t *testing.T) {
	p, place, in := layered(t)
	mesh := meshOf(t, "ep=2")
	errs := worlds(t, 2, func(int) world.Config { return world.Config{Transport: "tcp", Mesh: mesh} }, func(i int, w *world.World) error {
		j, err := gomoe.Open(t.Context(), p, gomoe.Config{World: w, Mesh: *mesh, Place: place, Options: runtime.Options{}})
		if err != nil {
			return err
		}
		defer j.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		for n := 0; ; n++ {
			if n == 2 && i == 1 {
				cancel(errors.New("the dog ate it"))
			}
			if _, err := j.Step(ctx, in); err != nil {
				return err
			}
		}
	})
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "the dog ate it") {
			t.Errorf("process %d: %v, want the cause", i, err)
		}
	}
}

// Nothing is left of a World that is closed, nor of a set-up that has failed halfway.
func TestLeavesNothing(t *testing.T) {
	count := func() (goroutines, files int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil { // not here
			return goruntime.NumGoroutine(), 0
		}
		return goruntime.NumGoroutine(), len(entries)
	}
	once := func() {
		for _, transport := range []string{"tcp", "shm"} {
			ok(t, worlds(t, 2, func(int) world.Config { return world.Config{Transport: transport} }, func(i int, w *world.World) error {
				return w.Warmup(t.Context())
			}))
		}
		for i, err := range worlds(t, 2, func(i int) world.Config {
			return world.Config{Transport: "verbs", Log: io.Discard}
		}, func(int, *world.World) error { return nil }) {
			if err == nil {
				t.Errorf("process %d has RDMA devices", i)
			}
		}
	}
	once() // what a process has once
	goroutines, files := count()
	for range 3 {
		once()
	}
	var g, f int
	for range 200 { // those that end by themselves a moment later
		if g, f = count(); g <= goroutines && f <= files {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines and %d files are open, want %d and %d as before", g, f, goroutines, files)
}
