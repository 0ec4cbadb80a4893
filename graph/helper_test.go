package graph_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// same is a primitive of a user's.
type same struct{}

func (same) Name() string { return "same" }

func (same) Infer(in []graph.Type) ([]graph.Type, error) {
	if in[0].Rank() == 0 {
		return nil, fmt.Errorf("want an array")
	}
	return in, nil
}

func builder(x *graph.Value) *graph.Value { return graph.Apply1(same{}, x) }

func unmarked(x *graph.Value) *graph.Value { return builder(x) }

func marked(x *graph.Value) *graph.Value {
	graph.Helper()
	return builder(builder(x))
}

func nested(x *graph.Value) *graph.Value {
	graph.Helper()
	return marked(x)
}

func inClosure(x *graph.Value) *graph.Value {
	graph.Helper()
	return func() *graph.Value {
		graph.Helper()
		return builder(x)
	}()
}

// barelyInClosure is marked as a helper, but its closure is not.
func barelyInClosure(x *graph.Value) *graph.Value {
	graph.Helper()
	return func() *graph.Value { return builder(x) }()
}

func generic[T any](x *graph.Value, _ T) *graph.Value {
	graph.Helper()
	return builder(x)
}

//go:noinline
func called(x *graph.Value) *graph.Value {
	graph.Helper()
	return builder(x)
}

type layer struct{}

func (layer) value(x *graph.Value) *graph.Value {
	graph.Helper()
	return builder(x)
}

func (*layer) pointer(x *graph.Value) *graph.Value {
	graph.Helper()
	return builder(x)
}

type block interface {
	value(x *graph.Value) *graph.Value
}

// deep calls itself n times; each call is marked.
func deep(x *graph.Value, n int) *graph.Value {
	graph.Helper()
	if n == 0 {
		return builder(x)
	}
	return deep(x, n-1)
}

func refuses(x *graph.Value) *graph.Value {
	graph.Helper()
	graph.Fail("no %s is good enough", x.Type)
	return x
}

// here returns the line of its caller.
func here() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}

// TestHelper checks that equations of builders have the lines of the builders' callers.
func TestHelper(t *testing.T) {
	model := func(x *graph.Value) *graph.Value {
		var b block = layer{}
		for _, c := range []struct {
			at string
			v  *graph.Value
		}{
			{here(), builder(x)},
			{here(), marked(x)},
			{here(), nested(x)},
			{here(), inClosure(x)},
			{here(), generic(x, 1)},
			{here(), generic(x, "a")},
			{here(), called(x)},
			{here(), layer{}.value(x)},
			{here(), (&layer{}).pointer(x)},
			{here(), (&layer{}).value(x)},
			{here(), b.value(x)},
			{here(), deep(x, 0)},
			{here(), deep(x, 5)},
			{here(), deep(x, 40)},
			{here(), graph.Apply1(graph.AddAnyOp{}, x)},
		} {
			for v := c.v; v.Def != nil; v = v.Def.In[0] {
				if got := v.Def.Pos.String(); v.Def.Prim.Name() == "same" && got != c.at {
					t.Errorf("%s: the equation has the line %s", c.at, got)
				}
			}
		}
		return x
	}
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{model(tr.Input("x", graph.F32, 2))}
	})
	require.NoError(t, err)
}

// TestHelperIsNeeded checks that equations of functions that are not marked have those functions' lines.
func TestHelperIsNeeded(t *testing.T) {
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2)
		for _, v := range []*graph.Value{unmarked(x), barelyInClosure(x)} {
			if got := v.Def.Pos; got.String() == here() || filepath.Base(got.File) != "helper_test.go" {
				t.Errorf("line %s, want the function's own", got)
			}
		}
		at, v := here(), graph.Apply1(same{}, x) // in the function that Trace calls
		require.Equal(t, at, v.Def.Pos.String())
		return nil
	})
	require.NoError(t, err)
}

// TestHelperMistakes checks that errors of builders have the lines of their callers, with
// equations and without.
func TestHelperMistakes(t *testing.T) {
	for _, c := range []struct {
		at   string
		fn   func(x *graph.Value) *graph.Value
		want string
	}{
		{here(), func(x *graph.Value) *graph.Value { return builder(x) }, "same(f32[]): want an array"},
		{here(), func(x *graph.Value) *graph.Value { return nested(x) }, "same(f32[]): want an array"},
		{here(), func(x *graph.Value) *graph.Value { return refuses(x) }, "no f32[] is good enough"},
		{here(), func(*graph.Value) *graph.Value { return builder(nil) }, "same(): no argument belongs to a trace"},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{c.fn(tr.Input("x", graph.F32))}
		})
		require.EqualError(t, err, c.at+": "+c.want)
	}
}

// TestHelperModel gives Trace a marked function: its equations have the line of the call of Trace.
func TestHelperModel(t *testing.T) {
	model := func(tr *graph.Tracer) []*graph.Value {
		graph.Helper()
		return []*graph.Value{builder(tr.Input("x", graph.F32, 2))}
	}
	at := here()
	p, err := graph.Trace("p", model)
	require.NoError(t, err)
	file, line, _ := strings.Cut(at, ":")
	var want int
	fmt.Sscan(line, &want)
	require.Equal(t, fmt.Sprintf("%s:%d", file, want+1), p.Eqns[0].Pos.String())
}

// TestHelperTogether traces in many goroutines.
func TestHelperTogether(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
				at, v := here(), nested(tr.Input("x", graph.F32, 2))
				if got := v.Def.Pos.String(); got != at {
					t.Errorf("line %s, want %s", got, at)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestHelperIsCheap checks that a mark allocates nothing once it is known.
func TestHelperIsCheap(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { graph.Helper() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
