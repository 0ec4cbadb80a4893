package train

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// balance updates the routers' biases, if Config.Even is set, and returns the updates of all other parameters,
// which are left to the optimiser.
//
//	bias[e] = bias[e] + Even · sign(Σ demand / E - demand[e])
//
// demand i32[E] counts how often each expert was chosen, over all tokens; it is the same on every mesh. Source:
// Wang et al., "Auxiliary-loss-free load balancing strategy for mixture-of-experts" (2024), algorithm 1.
func (s *Step) balance(us []*Update, routed []nn.Routed) []*Update {
	if s.config.Even == 0 {
		return us
	}
	demand := map[string]*graph.Value{} // by name of the bias
	for _, r := range routed {
		if r.Bias == "" {
			continue
		}
		d := primitives.ConvertElementType(r.Demand, graph.I64) // E times the number of choices exceeds i32
		if demand[r.Bias] != nil {                              // a layer applied several times
			d = primitives.Add(demand[r.Bias], d)
		}
		demand[r.Bias] = d
	}
	if len(demand) == 0 {
		graph.Fail("even: no layer of experts has a bias for choosing experts, as models of deepseek_v3 and glm4_moe have; set nn.MoE.Bias, or even to 0")
	}
	var rest []*Update
	for _, u := range us {
		d := demand[u.Param.Name]
		if d == nil {
			rest = append(rest, u)
			continue
		}
		if u.Value.Type.DType != graph.F32 {
			graph.Fail("balancing without a loss: %s is %s, in which small steps are lost, want f32; say so in Config.Model.Stored", u.Param.Name, u.Value.Type)
		}
		total := primitives.BroadcastTo(primitives.ReduceSum(d, 0), d.Type.Shape...)
		missing := primitives.Sub(total, primitives.MulScalar(d, float64(d.Dim(0))))
		u.next = primitives.Add(u.Value, primitives.MulScalar(primitives.ConvertElementType(primitives.Sign(missing), graph.F32), s.config.Even))
	}
	return slices.Clip(rest)
}
