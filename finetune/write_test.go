package finetune

import (
	goruntime "runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// What is written of a matrix are its trained rows, of the right expert, where they lie; they are not copied.
func TestReplaced(t *testing.T) {
	stack, err := array.Of([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 2, 3, 2)
	require.NoError(t, err)
	f := replaced(map[string]array.Array{"w.*": stack})
	got, err := f(nn.Param{Name: "w.*"}, 1, 1, array.New(graph.T(graph.BF16, 2, 2)))
	require.NoError(t, err)
	require.Equal(t, []float64{8, 9, 10, 11}, got.Float64s())
	array.Data[float32](stack)[8] = 80
	require.Equal(t, []float64{80, 9, 10, 11}, got.Float64s())
	_, err = f(nn.Param{Name: "v"}, 0, 0, array.New(graph.T(graph.BF16, 2)))
	require.ErrorContains(t, err, "v was not trained")
}

// While a model is written, the rows of what is written already do not stay in memory, also where the collector would
// not run by itself.
func TestCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	goruntime.GC()
	heap := func() uint64 {
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	f := collected(func(_ nn.Param, _, _ int, rows array.Array) (array.Array, error) {
		return array.New(rows.Type.With(graph.F32)), nil
	})
	for range 200 {
		_, err := f(nn.Param{}, 0, 0, array.New(graph.T(graph.BF16, 1<<18)))
		require.NoError(t, err)
		most = max(most, heap()-min(before, heap()))
	}
	if most > 3*collectFrom {
		t.Errorf("%d MiB are in use, want at most %d of the %d MiB that were made", most>>20, 3*collectFrom>>20, 300)
	}
}
