package runtime_test

import (
	gort "runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
)

// largeLen is the length of a result whose memory is worth a collection, on each of two
// ranks.
const largeLen = 2 << 20

// large returns a session of that mesh whose results are 2x and x², and its input, whose
// elements are n.
func large(t *testing.T, mesh string, n float64) (*runtime.Session, map[string]*runtime.Array) {
	t.Helper()
	return sized(t, mesh, largeLen, n)
}

// sized returns what large does, of that length.
func sized(t *testing.T, mesh string, length int, n float64) (*runtime.Session, map[string]*runtime.Array) {
	t.Helper()
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, length)
		return []*graph.Value{perElement("twice", x, func(x float64) float64 { return 2 * x }), perElement("square", x, func(x float64) float64 { return x * x })}
	})
	s := open(t, plan(t, p, toy.Setup{Mesh: mesh, Place: places(mesh, "x")}), runtime.Options{})
	return s, map[string]*runtime.Array{"x": constantOf(t, s, length, n)}
}

// perElement returns f of the elements of x.
func perElement(name string, x *graph.Value, f func(float64) float64) *graph.Value {
	return toy.Do(name, func(a *exec.Args) error {
		y := array.Data[float64](a.Out[0])
		for i, x := range array.Data[float64](a.In[0]) {
			y[i] = f(x)
		}
		return nil
	}, x)
}

// constant returns an input x of s.
func constant(t *testing.T, s *runtime.Session, n float64) *runtime.Array {
	t.Helper()
	return constantOf(t, s, largeLen, n)
}

func constantOf(t *testing.T, s *runtime.Session, length int, n float64) *runtime.Array {
	t.Helper()
	a := array.New(graph.T(graph.F64, length))
	for i := range array.Data[float64](a) {
		array.Data[float64](a)[i] = n
	}
	x, err := s.Put("x", a)
	require.NoError(t, err)
	return x
}

// all returns an error where elements of a differ from want. It looks at one in a thousand.
func all(t *testing.T, what string, a *runtime.Array, want float64) {
	t.Helper()
	got := values(t, a)
	for i := 0; i < len(got); i += 997 {
		if got[i] != want {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want)
			return
		}
	}
}

// made returns how many bytes f allocates on the heap.
func made(f func()) int {
	var before, after gort.MemStats
	gort.ReadMemStats(&before)
	f()
	gort.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A step takes the memory of results that nobody refers to any more, and no other memory.
func TestDroppedResults(t *testing.T) {
	s, in := large(t, "a=2", 3)
	gort.GC() // what earlier tests left could make collections dearer than fresh memory
	drop := func() {
		_, err := s.Run(t.Context(), in)
		require.NoError(t, err)
	}
	drop()
	drop() // nothing that the step before has left on a stack counts from here on
	if got := made(func() {
		for range 5 {
			drop()
		}
	}); got > 1<<20 {
		t.Errorf("5 steps whose results are dropped take %d bytes, want next to none", got)
	}

	held := step(t, s, in)
	in["x"] = constant(t, s, 5)
	for range 5 {
		drop()
	}
	all(t, "a result that is held", held[0], 6)
	all(t, "a result that is held", held[1], 9)
}

// Results that are too small for a collection in every step gather, and a collection takes back those of several steps.
func TestDroppedSmallResults(t *testing.T) {
	s, in := sized(t, "a=2", 64<<10, 3) // 1 MiB of results
	gort.GC()
	steps := func() {
		for range 64 {
			_, err := s.Run(t.Context(), in)
			require.NoError(t, err)
		}
	}
	if got := made(steps); got > 40<<20 {
		t.Errorf("64 steps whose results are dropped take %d bytes at first, want the 16 MiB that gather and what Go's own collections leave", got)
	}
	if got := made(steps); got > 8<<20 {
		t.Errorf("64 more steps take %d bytes, want next to none", got)
	}
}

// A part keeps its memory when its Array is dropped. So does a result that is an input of a later step, or was donated or recycled and lives on in
// another result.
func TestClaimsOfOthers(t *testing.T) {
	s, in := large(t, "a=2", 3)
	three := in["x"]
	part := func() array.Array {
		parts, err := step(t, s, in)[1].Parts()
		require.NoError(t, err)
		return parts[1].Array
	}()
	fed := map[string]*runtime.Array{"x": step(t, s, in)[1]} // nines

	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{perElement("tenfold", tr.Input("x", graph.F64, largeLen), func(x float64) float64 { return 10 * x })}
	})
	other := open(t, plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}, Donate: map[string]int{"x": 0}}), runtime.Options{})
	donated := func() *runtime.Array {
		return step(t, other, map[string]*runtime.Array{"x": step(t, s, in)[0]})[0] // sixties
	}()
	recycled := func() *runtime.Array {
		other.Recycle(step(t, s, in)[0])
		return step(t, other, map[string]*runtime.Array{"x": three})[0] // thirties
	}()

	in["x"] = constant(t, s, 5)
	for range 6 {
		_, err := s.Run(t.Context(), in)
		require.NoError(t, err)
		gort.GC()
	}
	if got := array.Data[float64](part); got[0] != 9 || got[len(got)-1] != 9 {
		t.Errorf("a part of a dropped Array has become %v, want 9", got[0])
	}
	all(t, "a result that was donated", donated, 60)
	all(t, "a result in recycled memory", recycled, 30)
	all(t, "the square of a result that is fed back", step(t, s, fed)[1], 81)
}

// While a step of another session reads a dropped result, the session that made it leaves
// its memory alone.
func TestInputsOfARunningStep(t *testing.T) {
	s, in := large(t, "", 3)
	begun, goOn := make(chan bool), make(chan bool)
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{toy.Do("wait", func(a *exec.Args) error {
			begun <- true
			<-goOn
			return toy.Copy(a)
		}, tr.Input("x", graph.F64, largeLen))}
	})
	other := open(t, plan(t, p, toy.Setup{}), runtime.Options{})
	var read []*runtime.Array
	var err error
	var running sync.WaitGroup
	running.Go(func() {
		read, err = other.Run(t.Context(), map[string]*runtime.Array{"x": step(t, s, in)[1]})
	})
	<-begun
	fives := map[string]*runtime.Array{"x": constant(t, s, 5)}
	for range 4 {
		_, err := s.Run(t.Context(), fives)
		require.NoError(t, err)
	}
	goOn <- true
	running.Wait()
	require.NoError(t, err)
	all(t, "what the other step has read", read[0], 9)
}
