package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// DeepSeekV4Experts reads the MoE layers of a DeepSeek-V4, and returns a function applying the experts of layer l
// to x[B,S,H] of tokens i32[B,S]. The first layers choose experts from a table of tokens; all others choose by the
// square root of softplus plus a bias per expert. Gate and up projections are clamped. The scope must be the parent
// of the layers, which are named as in the published files: layers.0.ffn.gate.weight.
//
// The rest of this architecture is not implemented, so Open does not accept it.
func DeepSeekV4Experts(c *checkpoint.Checkpoint) (func(s *nn.Scope, l int, x, tokens *graph.Value) *graph.Value, error) {
	r := newReader(c, Family{Name: c.Config.Architecture})
	m := nn.MoE{
		Experts: r.Size(Keys{"n_routed_experts", ".expert_count"}),
		Width:   r.Size(Keys{"moe_intermediate_size", ".expert_feed_forward_length"}),
		Vocab:   r.Size(Keys{"vocab_size", ".vocab_size"}),
		Route: primitives.RouteOp{
			TopK:        r.Size(Keys{"num_experts_per_tok", ".expert_used_count"}),
			Score:       primitives.SqrtSoftplusScore,
			Renormalize: r.FlagOr(Keys{"norm_topk_prob", ".expert_weights_norm"}, true),
			Epsilon:     1e-20, // as in transformers; others use a sum of at least 2^-14
			Scale:       r.NumberOr(Keys{"routed_scaling_factor", ".expert_weights_scale"}, 1.5),
		},
		Matrices:   nn.Matrices{Gate: "w1", Up: "w3", Down: "w2"},
		GLU:        nn.GLU{Limit: r.Positive(Keys{"swiglu_limit", ".swiglu_clamp_exp"})},
		SharedName: "shared_experts",
	}
	m.Shared = m.Width * r.SizeOr(Keys{"n_shared_experts", ".expert_shared_count"}, 0)
	hashed := r.SizeOr(Keys{"num_hash_layers", ".hash_layer_count"}, 0)
	r.Only(Keys{"scoring_func"}, "sqrtsoftplus")
	r.Only(Keys{"topk_method"}, "noaux_tc")
	if r.err == nil && m.Route.TopK > m.Experts {
		r.Fail(fmt.Errorf("%s: a token uses %d of %d experts, want at most as many", r.c.Path, m.Route.TopK, m.Experts))
	}
	if r.err != nil {
		return nil, fmt.Errorf("models: %w", r.err)
	}
	return func(s *nn.Scope, l int, x, tokens *graph.Value) *graph.Value {
		m := m
		if l < hashed {
			m.Tokens = tokens
		} else {
			m.Bias = "bias"
		}
		y, _ := m.Apply(s.In(fmt.Sprintf("layers.%d.ffn", l), fmt.Sprintf("blk.%d", l)), x)
		return y
	}, nil
}
