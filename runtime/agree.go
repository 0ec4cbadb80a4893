package runtime

import (
	"bytes"
	"context"
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// meshBytes is how many bytes of a mesh's text the ranks compare. A longer mesh is
// still compared as a whole, because the plan's hash covers it.
const meshBytes = 240

// samePlan compares the meshes and the hashes of all ranks' plans. Every rank sees
// all of them, so all ranks return the same error.
func (r *rank) samePlan(ctx context.Context) error {
	all := make([]int, r.comm.Size())
	for i := range all {
		all[i] = i
	}
	g, err := r.comm.Group(all)
	if err != nil {
		return err
	}
	hash := r.plan.Hash()
	mine := make([]byte, meshBytes+len(hash))
	copy(mine[:meshBytes], r.plan.Mesh.String())
	copy(mine[meshBytes:], hash)
	got := make([]byte, len(mine)*len(all))
	c := collective.Call{Op: "all_gather", DType: graph.U8, Bytes: int64(len(mine))}
	if err := g.AllGather(ctx, c, got, mine); err != nil {
		return fmt.Errorf("runtime: compare plans before the first step: %w", err)
	}
	record := func(i int) (mesh, hash []byte) {
		b := got[i*len(mine) : (i+1)*len(mine)]
		return bytes.TrimRight(b[:meshBytes], "\x00"), b[meshBytes:]
	}
	mesh0, hash0 := record(0)
	for i := range all {
		mesh, hash := record(i)
		switch {
		case !bytes.Equal(mesh, mesh0):
			return &exec.Agreed{Err: fmt.Errorf("runtime: rank %d runs on the mesh %q and rank 0 on %q; start all ranks with the same mesh", i, mesh, mesh0)}
		case !bytes.Equal(hash, hash0):
			return &exec.Agreed{Err: fmt.Errorf("runtime: rank %d runs plan %s and rank 0 plan %s; start all ranks with the same program, mesh and options", i, hash, hash0)}
		}
	}
	return nil
}
