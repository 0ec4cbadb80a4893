package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// tokenParts returns into how many parts the tokens, which are split over axes, are cut so that
// the experts of one part's rows are the ranks of one group.
func (l epLayer) tokenParts(m sharding.Mesh, axes []string) int {
	return m.Parts(slices.DeleteFunc(slices.Clone(axes), func(a string) bool { return a == l.axis }))
}

// blockRows returns i32[experts of the rank, blocks+1]: for every expert how many of the rows
// that the rank has of it belong to the tokens before each of a number of equal blocks, and at
// the end all. The rank has rows of the tokens of its group, which are neighbours in the batch.
func (l epLayer) blockRows(e *lowering.Emitter, routing *graph.Value, axes []string, blocks int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, fmt.Sprint("block rows ", blocks)), func() (lowering.Buf, error) {
		travels, stride := l.travels(e.Mesh, axes), 2
		from, err := l.routing(e, routing, axes)
		if travels {
			from, err = l.chosen(e, routing, axes)
			stride = 1
		}
		if err != nil {
			return lowering.Buf{}, err
		}
		tokens, k, experts := e.Mesh.Cuts(axes, routing.Type.Shape[0]), routing.Type.Shape[1], l.experts(e.Mesh)
		out := e.Placed(graph.T(graph.I32, l.Experts, blocks+1), sharding.Spec{Dims: [][]string{l.expertAxes(e.Mesh), nil}})
		return out, e.Emit(lowering.KernelSpec{Name: "ep_block_rows", Out: []lowering.Buf{out}, In: []lowering.Buf{from}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			lo, hi := experts.Part(member)
			chosen := data[int32](a.In[0])
			if travels { // of the whole batch
				begin, _ := tokens.Part(g.Sources[0])
				_, end := tokens.Part(g.Sources[len(g.Sources)-1])
				chosen = chosen[begin*k : end*k]
			}
			starts := data[int32](a.Out[0])
			clear(starts)
			pairs := len(chosen) / stride
			for b := range blocks {
				for i := b * pairs / blocks; i < (b+1)*pairs/blocks; i++ {
					if x := int(chosen[i*stride]); x >= lo && x < hi {
						starts[(x-lo)*(blocks+1)+b+1]++
					}
				}
			}
			for i := range starts {
				if i%(blocks+1) > 0 {
					starts[i] += starts[i-1]
				}
			}
			return nil
		}})
	})
}
