package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// topKOp finds the K largest elements along the last dimension, in descending
// order. The lower index is first among equals. The order is jax.lax.top_k's: 0 is
// larger than -0, and NaNs are larger than Inf. NaNs with a sign are too, which JAX puts
// last, after -Inf.
type topKOp struct {
	K int
}

var _ primitive = topKOp{}

// TopK returns the k largest elements of x along its last dimension and their
// indices i32, both [.., k].
func TopK(x *graph.Value, k int) (values, indices *graph.Value) {
	out := graph.Apply(topKOp{k}, x)
	return out[0], out[1]
}

func (topKOp) Name() string { return "top_k" }

func (t topKOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if err := atLeast(x, 1); err != nil {
		return nil, err
	}
	last := x.Rank() - 1
	if err := indexable(x, last); err != nil {
		return nil, err
	}
	if t.K < 0 || t.K > x.Shape[last] {
		return nil, fmt.Errorf("k=%d of the last dimension of %s, want 0 to %d", t.K, x, x.Shape[last])
	}
	out := graph.Type{DType: x.DType, Shape: slices.Clone(x.Shape)}
	out.Shape[last] = t.K
	return []graph.Type{out, out.With(graph.I32)}, nil
}

func (t topKOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	last := e.In[0].Rank() - 1
	return []*graph.Value{graph.Apply1(addAlongAxisOp{last, e.In[0].Dim(last)}, ct[0], e.Out[1])}, nil
}

func (t topKOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(alongAxis(c.Type(0), c.Type(0).Rank()-1, 2))
}

// Up to this k, keeping the k best in order is faster than sorting all elements: an
// element that is not among the best costs one comparison.
const topKInsert = 64

func (t topKOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.TopK, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x, index := a.In[0], data[int32](a.Out[1])
		last := x.Type.Rank() - 1
		rows, n, _ := x.Type.Around(last)
		if x.Type.DType == graph.F32 && t.K <= topKInsert {
			values := data[float32](x)
			a.Parallel(rows, 1+4*dear/(1+n), func(lo, hi int) {
				keys, best := make([]int32, n), make([]int32, t.K)
				for row := lo; row < hi; row++ {
					vector.Order(keys, values[row*n:][:n])
					largestKeys(best, index[row*t.K:][:t.K], keys)
				}
			})
			takeAlong(a, a.Out[0], x, index, last)
			return nil
		}
		key := orderKeys(x, true)
		a.Parallel(rows, 1+dear/(1+n), func(lo, hi int) {
			best := make([]ranked, 0, n)
			for row := lo; row < hi; row++ {
				best = best[:0]
				for i := range n {
					// The complement makes the largest first.
					best = t.add(best, ranked{^key(row*n + i), int32(i)})
				}
				if t.K > topKInsert {
					slices.SortFunc(best, ranked.compare)
				}
				for i, r := range best[:t.K] {
					index[row*t.K+i] = r.index
				}
			}
		})
		takeAlong(a, a.Out[0], x, index, last)
		return nil
	}})
}

// largestKeys writes the largest keys to best, in descending order, and their indices to
// index. Of equal keys the one with the lowest index is first. There are at least
// len(best) keys.
func largestKeys(best, index, keys []int32) {
	k, n := len(best), 0
	if k == 0 {
		return
	}
	for i, key := range keys {
		if n == k {
			if key <= best[k-1] {
				continue
			}
			n--
		}
		j := n
		for ; j > 0 && best[j-1] < key; j-- {
			best[j], index[j] = best[j-1], index[j-1]
		}
		best[j], index[j] = key, int32(i)
		n++
	}
}

// add returns best with r, whose index is above those of all that were added before. It
// keeps the K least in ascending order, or, where K is above topKInsert, appends r.
func (t topKOp) add(best []ranked, r ranked) []ranked {
	if t.K > topKInsert {
		return append(best, r)
	}
	if len(best) == t.K {
		if t.K == 0 || best[t.K-1].key <= r.key {
			return best
		}
		best = best[:t.K-1]
	}
	best = append(best, r)
	i := len(best) - 1
	for ; i > 0 && best[i-1].key > r.key; i-- {
		best[i] = best[i-1]
	}
	best[i] = r
	return best
}

func (topKOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..,n]", Results: "values t[..,k], indices i32[..,k]", Formula: "values descending, values = x[.., indices]",
		Params: "k: how many, 0 to n", Notes: "Ties go to the lower index; 0 is larger than -0; NaNs are the largest, as in jax.lax.top_k, also NaNs with a sign, which JAX puts last; unlike router it does not refuse them."}
}
