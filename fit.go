package gomoe

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
)

// Fit returns the program with the largest blocks that needs at most `size` bytes on a
// rank, inputs and results included, and its number of rows per block (see
// primitives.InBlocks). It calls program with `most` rows per block, then with half of
// them, and so on, and compiles each result for cfg without running it. If even blocks of
// one row do not fit, the error gives the size of the smallest program. If program
// returns an error for some number of rows, for example because the tokens do not divide
// into such blocks, Fit skips that number. If ctx ends, Fit returns its cause.
func Fit(ctx context.Context, size int64, most int, cfg Config, program func(rows int) (*graph.Program, error)) (*graph.Program, int, error) {
	if size < 1 || most < 1 {
		return nil, 0, fmt.Errorf("gomoe: fit %d rows in %d bytes: want at least 1 of each", most, size)
	}
	var refused error // the last error
	least, at := int64(-1), 0
	for rows := most; rows > 0; rows /= 2 {
		p, err := program(rows)
		if err != nil {
			refused = err
			continue
		}
		plan, err := Compile(ctx, p, cfg)
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		if err != nil {
			refused = err
			continue
		}
		total := plan.Report(goruntime.GOMAXPROCS(0)).Mem.Total
		if total <= size {
			return p, rows, nil
		}
		if least < 0 || total < least {
			least, at = total, rows
		}
	}
	if least < 0 {
		return nil, 0, refused
	}
	return nil, 0, errors.Join(fmt.Errorf("gomoe: fit: a rank takes %s with blocks of at most %d rows, which is the least of all sizes, and %s are wanted; split the inputs over more ranks, or leave out what blocks do not make smaller, such as gradients of weights that stay as they are",
		memory.Format(float64(least)), at, memory.Format(float64(size))), refused)
}
