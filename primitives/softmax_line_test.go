package primitives_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// A line has the same bits whether its elements lie apart or side by side. On a mesh that
// splits the dimensions behind the axis, elements that lay apart lie side by side.
func TestLinesApart(t *testing.T) {
	const n, columns = 37, 3
	r := rand.New(rand.NewPCG(31, 32))
	x := array.New(graph.T(graph.F32, n, columns))
	for i := range array.Data[float32](x) {
		array.Data[float32](x)[i] = float32(3 * r.NormFloat64())
	}
	for _, op := range []string{"softmax", "log_softmax", "logsumexp"} {
		run := func(x array.Array, columns int) []float32 {
			src := fmt.Sprintf("program p(x f32[%d,%d]) {\n y = %s(x) axis=0\n return y\n}", n, columns, op)
			return array.Data[float32](eval(t, gomoe.Config{}, src, map[string]array.Array{"x": x})[0])
		}
		all := run(x, columns)
		for c := range columns {
			one := array.New(graph.T(graph.F32, n, 1))
			for i := range n {
				array.Data[float32](one)[i] = array.Data[float32](x)[i*columns+c]
			}
			for i, want := range run(one, 1) {
				if got := all[i*columns+c]; got != want {
					t.Errorf("%s: element %d of column %d is %v, alone %v", op, i, c, got, want)
				}
			}
		}
	}
}
