package gomoe

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// Setting is one way to trace and place a program.
type Setting struct {
	Name    string // as the user gives it, such as -remat all
	Program func() (*graph.Program, Config, error)
}

// Estimate holds the planned memory and traffic of one rank for a step. Sizes are in bytes
// unless stated otherwise.
type Estimate struct {
	Name    string          `json:"choice"` // of the Setting
	Program *graph.Program  `json:"-"`
	Mem     lowering.Memory `json:"-"` // in detail
	Total   int64           `json:"total"`
	Arena   int64           `json:"arena"`
	Peak    int64           `json:"peak"` // peak use, inputs and results included
	// Arrive is the size of the largest receive buffer among the layers, and Rows its
	// capacity in rows. Pairs is the largest capacity of an array of rows in expert
	// order.
	Arrive int64 `json:"arrive"`
	Rows   int   `json:"rows"`
	Pairs  int   `json:"pairs"`
	// Exchanged is the largest contribution of a rank to the collectives of a step.
	Exchanged int64 `json:"exchanged"`
	// Changes describes how the results of the forward pass may change; "" means no bit
	// does. Gradients of weights are summed block by block, in order.
	Changes string `json:"changes,omitempty"`
	// Err is the reason why there is no such plan; all sizes are then 0.
	Err string `json:"error,omitempty"`
}

// Estimate traces and compiles the program without running it. If ctx ends, Estimate returns
// its cause. Estimate.Err has the text of the error.
func (s Setting) Estimate(ctx context.Context) (Estimate, error) {
	e := Estimate{Name: s.Name}
	p, cfg, err := s.Program()
	var plan *lowering.Plan
	if err == nil {
		plan, err = Compile(ctx, p, cfg)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		e.Err = err.Error()
		return e, err
	}
	r := plan.Report(goruntime.GOMAXPROCS(0))
	e.Program, e.Mem, e.Total, e.Arena, e.Peak = p, r.Mem, r.Mem.Total, r.Mem.Arena, r.Mem.Peak.Live
	for _, op := range r.Comm.Totals {
		e.Exchanged += op.Bytes
	}
	e.received(plan)
	return e, nil
}

// received sets Arrive, Rows and Pairs from the plan and the bodies of its loops.
func (e *Estimate) received(plan *lowering.Plan) {
	for i := range plan.Bufs {
		if r := plan.Bufs[i].Spec.Ragged; r != nil {
			e.Pairs = max(e.Pairs, r.Rows)
		}
	}
	for i := range plan.Instrs {
		in := &plan.Instrs[i]
		if in.Loop != nil {
			e.received(in.Loop.Body)
		}
		if _, ok := in.Prim.(primitives.DispatchOp); ok && in.Op == ops.AllToAll {
			to := plan.Bufs[in.Out[0]].Type
			e.Arrive, e.Rows = max(e.Arrive, to.Bytes()), max(e.Rows, to.Shape[0])
		}
	}
}

// Fit returns the program with the largest blocks that needs at most `size` bytes on a
// rank, inputs and results included, and its number of rows per block (see
// primitives.InBlocks). It calls program with `most` rows per block, then with half of
// them, and so on, and estimates each result for cfg. If even blocks of one row do not fit,
// the error gives the size of the smallest program. If program returns an error for some
// number of rows, for example because the tokens do not divide into such blocks, Fit skips
// that number. If ctx ends, Fit returns its cause.
func Fit(ctx context.Context, size int64, most int, cfg Config, program func(rows int) (*graph.Program, error)) (*graph.Program, int, error) {
	if size < 1 || most < 1 {
		return nil, 0, fmt.Errorf("gomoe: fit %d rows in %d bytes: want at least 1 of each", most, size)
	}
	var refused error // the last error
	least, at := int64(-1), 0
	for rows := most; rows > 0; rows /= 2 {
		e, err := Setting{Program: func() (*graph.Program, Config, error) {
			p, err := program(rows)
			return p, cfg, err
		}}.Estimate(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, 0, err
		case err != nil:
			refused = err
		case e.Total <= size:
			return e.Program, rows, nil
		case least < 0 || e.Total < least:
			least, at = e.Total, rows
		}
	}
	if least < 0 {
		return nil, 0, refused
	}
	return nil, 0, errors.Join(fmt.Errorf("gomoe: fit: a rank takes %s with blocks of at most %d rows, which is the least of all sizes, and %s are wanted; split the inputs over more ranks, or leave out what blocks do not make smaller, such as gradients of weights that stay as they are",
		memory.Format(least), at, memory.Format(size)), refused)
}

// Lighter extends a *TooLargeError with the memory that the step needs as set now and with
// the other settings, listing those which can be planned and need less. It returns other
// errors unchanged. If ctx ends, Lighter returns its cause.
func Lighter(ctx context.Context, err error, now Setting, others []Setting) error {
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) {
		return err
	}
	needs := func(s Setting) (int64, error) {
		e, err := s.Estimate(ctx)
		return e.Mem.OfRanks(tooLarge.Ranks), err
	}
	all, wrong := needs(now)
	var list []string
	for _, s := range others {
		if wrong != nil {
			break
		}
		if n, err := needs(s); err == nil && n < all { // else the setting does not apply
			list = append(list, fmt.Sprintf("%s (%s)", s.Name, memory.Format(n)))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(list) == 0 {
		return err
	}
	return fmt.Errorf("%w; with its inputs the step takes %s, and less with %s", err, memory.Format(all), strings.Join(list, ", "))
}

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
		e.Program, memory.Format(e.Need), e.Ranks, e.Of, beside, memory.Format(e.Can), e.By)
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
