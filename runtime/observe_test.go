package runtime_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
)

// seen is an Observer that records what kernels read and write.
type seen struct {
	mu     sync.Mutex
	before map[[2]int][]float64 // by rank and instruction
	after  map[[2]int][]float64
}

func (s *seen) Before(k runtime.Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[[2]int{k.Rank, k.Index}] = k.In[0].Float64s()
}

func (s *seen) After(k runtime.Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after[[2]int{k.Rank, k.Index}] = k.Out[0].Float64s()
}

// Every kernel of every rank is shown before it runs, when its result has not yet
// overwritten its argument, and after it has run. Collectives are not shown.
func TestObserve(t *testing.T) {
	s := &seen{before: map[[2]int][]float64{}, after: map[[2]int][]float64{}}
	p := plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 4)
		y := toy.Square(toy.Scale(2, x))
		return []*graph.Value{y, toy.Sum(y)}
	}), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
	out, err := toy.Eval(context.Background(), open(t, p, runtime.Options{Observe: s}), map[string]array.Array{"x": f64(1, 2, 3, 4)})
	require.NoError(t, err)
	require.Equal(t, []float64{4, 16, 36, 64}, out[0].Float64s())
	kernels := 0
	for i := range p.Instrs {
		if !p.Instrs[i].Communicates() {
			kernels++
		}
	}
	require.Len(t, s.before, 2*kernels)
	require.Len(t, s.after, 2*kernels)
	require.Equal(t, []float64{3, 4}, s.before[[2]int{1, 0}])
	require.Equal(t, []float64{6, 8}, s.after[[2]int{1, 0}])
	require.Equal(t, []float64{36, 64}, s.after[[2]int{1, 1}])
}
