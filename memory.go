package gomoe

import (
	"fmt"
	"math"
	goruntime "runtime"

	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/lowering"
)

// TooLargeError reports that a program needs more memory than is available to this
// process.
type TooLargeError struct {
	Program   string
	Need, Can int64  // bytes
	By        string // the origin of the limit
	Ranks, Of int    // of its mesh in this process
	Inputs    bool   // Need includes the inputs
}

func (e *TooLargeError) Error() string {
	beside := "beside"
	if e.Inputs {
		beside = "with"
	}
	return fmt.Sprintf("gomoe: program %s needs %s of memory for %d of the %d ranks of its mesh in this process, %s its inputs, and %s can be had (%s); make it smaller, or spread it over more processes or a larger mesh; gomoe plan -brief says what the memory is for",
		e.Program, memory.Format(float64(e.Need)), e.Ranks, e.Of, beside, memory.Format(float64(e.Can)), e.By)
}

// fits returns a *TooLargeError if a session of the plan and its results need more memory
// than is available. The process runs the given number of ranks of the mesh. Inputs are
// not counted, because other sessions may hold them already. A small plan fits without
// asking for the available memory, which takes a quarter of the time of opening such a
// plan.
func fits(plan *lowering.Plan, ranks int, available func() memory.Limit) error {
	m := plan.Report(goruntime.GOMAXPROCS(0)).Mem
	need := float64(ranks)*(float64(m.Results)+float64(m.Arena)+float64(m.Kept)) + float64(m.Workspace)
	for i, b := range plan.Bufs {
		if b.Storage != lowering.Input && plan.Bufs[plan.Root(i)].Storage != lowering.Input {
			need = max(need, float64(b.Type.Bytes())) // so large that the arena's size may have overflowed
		}
	}
	const small = 1 << 20
	if need <= small {
		return nil
	}
	can := available()
	if need <= float64(can.Bytes) {
		return nil
	}
	return &TooLargeError{Program: plan.Name, Need: int64(min(need, math.MaxInt64/2)), Can: can.Bytes, By: can.By, Ranks: ranks, Of: plan.Mesh.Ranks()}
}
