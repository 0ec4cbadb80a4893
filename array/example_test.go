package array_test

import (
	"bytes"
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Arrays are made of Go's slices, converted, and written as NumPy does.
func Example() {
	a, err := array.Of([]float32{1, 2.5, -3, 1e10}, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := a.As(graph.BF16)
	fmt.Println(a.Type, array.Data[float32](a))
	fmt.Println(b.Type, b.Float64s(), len(b.Bytes()), "bytes")

	var file bytes.Buffer
	if err := array.WriteNPY(&file, a); err != nil {
		fmt.Println(err)
		return
	}
	c, err := array.ReadNPY(&file)
	fmt.Println(array.Equal(a, c), err)
	// Output:
	// f32[2,2] [1 2.5 -3 1e+10]
	// bf16[2,2] [1 2.5 -3 9.999220736e+09] 8 bytes
	// true <nil>
}
