package ops_test

import (
	"fmt"

	"github.com/gomoe/gomoe/lowering/ops"
)

func Example() {
	op := ops.GroupedMatMul | ops.Blocks | ops.Weighted
	fmt.Println(op, op.Plain() == ops.GroupedMatMul, op.Has(ops.Wire))
	// Output: grouped_matmul_blocks_weighted true false
}
