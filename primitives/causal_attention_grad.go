package primitives

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// causalAttentionGrad is the derivative of causalAttention: the cotangents of q,
// k and v from q, k, v, out, lse and the cotangents of out and lse.
type causalAttentionGrad struct {
	Scale float64
	Full  bool
}

var _ Primitive = causalAttentionGrad{}

func (causalAttentionGrad) Name() string { return "causal_attention_grad" }

func (p causalAttentionGrad) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 7); err != nil {
		return nil, err
	}
	out, err := causalAttention(p).Infer(in[:3])
	if err != nil {
		return nil, err
	}
	for i, want := range []graph.Type{out[0], out[1], out[0], out[1]} {
		if !in[3+i].Equal(want) {
			return nil, fmt.Errorf("argument %d is %s, want %s for q, k and v of these types", 3+i, in[3+i], want)
		}
	}
	return in[:3], nil
}

func (causalAttentionGrad) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) {
	return nil, errors.New("the second derivative of causal_attention is not available; write attention with dot_general and softmax")
}

func (p causalAttentionGrad) Shard(c *sharding.Context) (sharding.Decision, error) {
	h, l := attentionDims()
	return c.Place(sharding.Factors{In: [][]int{h, h, h, h, l, h, l}, Out: [][]int{h, h, h}, RowWise: true})
}

func (p causalAttentionGrad) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Kernel("causal_attention_grad", out, in, inFloat(attentionGradKernel[float32](p), attentionGradKernel[float64](p)))
}

// attentionGradKernel gives each piece of work all query heads of some heads of
// keys, which take turns in order, so that sums do not depend on the pieces.
func attentionGradKernel[T Float](p causalAttentionGrad) lowering.Kernel {
	return func(a *lowering.Args) error {
		q, k, v, out := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.In[3])
		lse, dout, dlse := data[T](a.In[4]), data[T](a.In[5]), data[T](a.In[6])
		dq, dk, dv := data[T](a.Out[0]), data[T](a.Out[1]), data[T](a.Out[2])
		clear(dk)
		clear(dv)
		h := newHeads[T](causalAttention(p), a.In[0].Type, a.In[1].Type)
		a.Parallel(h.b*h.m, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				b, g, group := i/h.m, i%h.m, h.n/h.m
				for n := g * group; n < (g+1)*group; n++ {
					at := (b*h.n + n) * h.S
					h.Backward(h.of(q, b, n, h.n), h.of(k, b, g, h.m), h.of(v, b, g, h.m), h.of(out, b, n, h.n), lse[at:][:h.S],
						h.of(dout, b, n, h.n), dlse[at:][:h.S], h.of(dq, b, n, h.n), h.of(dk, b, g, h.m), h.of(dv, b, g, h.m))
				}
			}
		})
		return nil
	}
}

func (causalAttentionGrad) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,S,N,D], k f[B,S,M,D], v f[B,S,M,D], out f[B,S,N,D], lse f[B,N,S], dout f[B,S,N,D], dlse f[B,N,S]",
		Results: "dq f[B,S,N,D], dk f[B,S,M,D], dv f[B,S,M,D]",
		Formula: "dv[j] = Σ p_ij dout[i], ds_ij = scale · p_ij (dout[i]·v[j] - dout[i]·out[i] + dlse[i]), dq[i] = Σ ds_ij k[j], dk[j] = Σ ds_ij q[i], p_ij = exp(s_ij - lse[i])",
		Params:  "scale: 0 for 1/√D; full: j is any",
		Notes:   "Has no derivative. Scores are computed again and never stored. Query heads that share a head of k and v are summed in order."}
}
