package exec_test

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
)

// square is the work of a kernel: it squares the elements from lo to hi.
type square struct{ y, x []float32 }

func (s *square) Piece(lo, hi int) {
	for i := lo; i < hi; i++ {
		s.y[i] = s.x[i] * s.x[i]
	}
}

// A kernel reads its arguments and writes its results, on as many threads as it is given.
func Example() {
	kernel := exec.Kernel(func(a *exec.Args) error {
		x, y := array.Data[float32](a.In[0]), array.Data[float32](a.Out[0])
		exec.Share(a, len(x), 1000, square{y, x})
		return nil
	})

	x, err := array.Of([]float32{1, 2, 3, 4}, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := array.New(x.Type)
	fmt.Println(kernel(&exec.Args{In: []array.Array{x}, Out: []array.Array{y}, Threads: 2}), y.Float64s())
	// Output: <nil> [1 4 9 16]
}
