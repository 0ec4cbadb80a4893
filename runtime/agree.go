package runtime

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/lowering"
)

// fact is a property that must be the same on all ranks of a session.
type fact struct {
	text string // the text to compare
	room int    // number of bytes of text to compare
	// differs formats the error from the texts of this rank and rank 0.
	differs string
}

// facts returns the facts compared before the first step. The plan's hash is the last,
// because another mesh gives another plan. A text longer than its room is still compared
// as a whole, because the hash covers it.
func (r *rank) facts() []fact {
	return []fact{
		{r.plan.Mesh.String(), 240, `runtime: rank %d runs on the mesh "%s" and rank 0 on "%s"; start all ranks with the same mesh`},
		{kernels(r.plan), 64, "runtime: rank %d runs %s and rank 0 %s, whose results differ in their last bits; start all ranks with the same, which -kernels or GOMOE_KERNELS chooses"},
		{fmt.Sprint(r.opts.compare()), 20, "runtime: rank %d compares inputs after %s steps and rank 0 after %s; start all ranks with the same runtime.Options.Compare"},
		{fmt.Sprint(r.opts.Finite), 8, "runtime: rank %d runs with runtime.Options.Finite %s and rank 0 with %s; start all ranks with the same"},
		{r.plan.Hash(), 16, "runtime: rank %d runs plan %s and rank 0 plan %s; start all ranks with the same program, mesh and options"},
	}
}

// kernels returns the name under which ranks compare their kernels. Kernels that give the
// same bits have the same name: all kinds of assembly do, except in products of bf16.
func kernels(p *lowering.Plan) string {
	kind, _ := kernel.Selected() // gomoe.Open has refused kernels that the processor lacks
	if kind == kernel.Portable {
		return "portable kernels"
	}
	if !brain(p) {
		return "kernels in assembly"
	}
	return "kernels in assembly that multiply bf16 by " + gemm.SelectedHalf()
}

// brain reports whether the plan, or the body of a loop in it, has a buffer of bf16.
func brain(p *lowering.Plan) bool {
	return slices.ContainsFunc(p.Bufs, func(b lowering.Buffer) bool { return b.Type.DType == graph.BF16 }) ||
		slices.ContainsFunc(p.Instrs, func(in lowering.Instr) bool { return in.Loop != nil && brain(in.Loop.Body) })
}

// samePlan compares the facts of all ranks. Every rank gets all of them, so all ranks
// return the same error.
func (r *rank) samePlan(ctx context.Context) error {
	facts := r.facts()
	var mine []byte
	for _, f := range facts {
		at := len(mine)
		mine = append(mine, make([]byte, f.room)...)
		copy(mine[at:], f.text)
	}
	all, err := r.gather(ctx, "facts of "+r.plan.Name, mine)
	if err != nil {
		return fmt.Errorf("runtime: compare plans before the first step: %w", err)
	}
	for i := range r.comm.Size() {
		at := 0
		for _, f := range facts {
			text := func(rank int) []byte { return bytes.TrimRight(all[rank*len(mine)+at:][:f.room], "\x00") }
			if !bytes.Equal(text(i), text(0)) {
				return &exec.AgreedError{Err: fmt.Errorf(f.differs, i, text(i), text(0))}
			}
			at += f.room
		}
	}
	return nil
}
