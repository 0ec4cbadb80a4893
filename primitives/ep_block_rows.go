package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// blockRows returns i32[experts of the rank, blocks+1]: for every expert, the first of its rows in
// each block of tokens, followed by the number of its rows. The batch has tree equal blocks, and
// the rank's group has at most `blocks` of them.
func (l epLayer) blockRows(e *lowering.Emitter, routing *graph.Value, axes []string, tree, blocks int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, fmt.Sprint("block rows ", tree)), func() (lowering.Buf, error) {
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
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPBlockRows, Out: []lowering.Buf{out}, In: []lowering.Buf{from}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			lo, hi := experts.Part(member)
			chosen := data[int32](a.In[0])
			starts := data[int32](a.Out[0])
			clear(starts)
			pairs, b := tokens.Len()*k/tree, 0 // of a block
			for _, s := range g.Sources {
				first, end := tokens.Part(s)
				list := chosen
				if travels { // of the whole batch
					list = chosen[first*k:]
				}
				for range (end - first) * k / max(pairs, 1) {
					for i := range pairs {
						if x := int(list[i*stride]); x >= lo && x < hi {
							starts[(x-lo)*(blocks+1)+b+1]++
						}
					}
					list = list[pairs*stride:]
					b++
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
