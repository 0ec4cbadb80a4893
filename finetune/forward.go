package finetune

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// The inputs that every program here has, all [rows,length]; keyInput is u32[2].
const keyInput = "key"

func inputs() []string {
	return []string{data.Tokens, data.Targets, data.Weights, data.Positions, data.Documents}
}

// losses traces a model over a batch, and returns the sum of -log(p) of the tokens that are to be predicted, and how many
// they are, both f32[]. Documents do not attend to each other.
func losses(s *nn.Scope, m *models.Model, rows, length int) (sum, count *graph.Value) {
	in := map[string]*graph.Value{}
	for _, name := range inputs() {
		d := graph.I32
		if name == data.Weights {
			d = graph.F32
		}
		in[name] = s.Tracer().Input(name, d, rows, length)
	}
	st := &nn.Step{At: in[data.Positions], Bias: data.Apart(in[data.Documents], graph.F32)}
	logits := m.Forward(s, in[data.Tokens], st)
	each := pr.CrossEntropy(pr.ConvertElementType(logits, graph.F32), in[data.Targets])
	return pr.ReduceSum(pr.Mul(each, in[data.Weights])), pr.ReduceSum(in[data.Weights])
}

// mean returns the loss of a step: the mean over the tokens that are to be predicted, 0 if there are none.
func mean(sum, count *graph.Value) *graph.Value {
	return pr.Div(sum, pr.Max(count, pr.FullLike(count, 1)))
}

// places returns the placements of the inputs, on any mesh.
func places() map[string]sharding.Spec {
	all := map[string]sharding.Spec{}
	for _, name := range inputs() {
		all[name] = sharding.Split("dp.ep")
	}
	return all
}

// batch returns the arrays of a batch. Rows from last on count for nothing.
func batch(b data.Batch, last int) (map[string]array.Array, error) {
	in := map[string]array.Array{}
	for _, name := range inputs() {
		a, err := b.Array(name)
		if err != nil {
			return nil, err
		}
		if name == data.Weights && last < a.Type.Shape[0] {
			clear(array.Data[float32](a)[max(last, 0)*a.Type.Shape[1]:])
		}
		in[name] = a
	}
	return in, nil
}
