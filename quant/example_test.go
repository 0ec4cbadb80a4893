package quant_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// 32 numbers become one block of q8_0: a common factor in f16, and a byte for each.
func Example() {
	x := make([]float32, 32)
	for i := range x {
		x[i] = float32(i) / 8
	}
	block := make([]byte, 34)
	if err := quant.Quantize(block, graph.Q8_0, x); err != nil {
		fmt.Println(err)
		return
	}
	y := make([]float32, 32)
	if err := quant.Dequantize(y, graph.Q8_0, block); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("factor", quant.Half(block), "bytes", block[2:6])
	fmt.Println(x[1:5], "became", y[1:5])
	// Output:
	// factor 0.030517578 bytes [0 4 8 12]
	// [0.125 0.25 0.375 0.5] became [0.12207031 0.24414062 0.36621094 0.48828125]
}
