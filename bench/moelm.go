package main

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	gomoeruntime "github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// languageModel is the model of examples/moe_lm at its default size. That example is a command and
// so cannot be imported.
type languageModel struct {
	Vocab, Width, Layers, Heads, FFN, Experts, TopK, Seq, Batch int

	Rate, Beta1, Beta2, Eps, Decay, Clip, Balance, ZLoss float64
}

// firstSteps is the number of steps, counted from the first, with losses to reproduce. Peers must
// also reproduce the norms of all weights after these steps.
const firstSteps = 4

func lmWorkloads() []workload {
	m := languageModel{
		Vocab: 256, Width: 128, Layers: 4, Heads: 4, FFN: 256, Experts: 8, TopK: 2, Seq: 128, Batch: 16,
		Rate: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Clip: 1, Balance: 0.01, ZLoss: 0.001,
	}
	var names []string
	for _, w := range m.weights() {
		names = append(names, w.name)
	}
	return []workload{{
		name:  "train/moe_lm",
		title: fmt.Sprintf("training step of moe_lm, f32, batch %d×%d, width %d, %d layers, E=%d k=%d F=%d, AdamW", m.Batch, m.Seq, m.Width, m.Layers, m.Experts, m.TopK, m.FFN),
		peer:  "lm",
		params: map[string]any{
			"layers": m.Layers, "heads": m.Heads, "experts": m.Experts, "top_k": m.TopK, "rate": m.Rate, "beta1": m.Beta1, "beta2": m.Beta2,
			"eps": m.Eps, "decay": m.Decay, "clip": m.Clip, "balance": m.Balance, "z_loss": m.ZLoss, "first_steps": firstSteps, "weights": names,
		},
		tolerance: 1e-4, target: 0.7, threads: []int{2}, peers: []string{torchName, torchPlainName, jaxName},
		open: m.open,
	}}
}

// weight is an array of weights; if std is 0, all elements start at one.
type weight struct {
	name  string
	shape []int
	std   float64
}

func (m languageModel) weights() []weight {
	d, f, e := m.Width, m.FFN, m.Experts
	in, deep := fanIn(d), math.Sqrt(2*float64(m.Layers))
	ws := []weight{{"embed", []int{m.Vocab, d}, 0.02}}
	for l := range m.Layers {
		n := func(s string) string { return fmt.Sprintf("l%d_%s", l, s) }
		ws = append(ws,
			weight{n("norm1"), []int{d}, 0}, weight{n("wq"), []int{d, d}, in}, weight{n("wk"), []int{d, d}, in}, weight{n("wv"), []int{d, d}, in},
			weight{n("wo"), []int{d, d}, in / deep}, weight{n("norm2"), []int{d}, 0}, weight{n("router"), []int{d, e}, in},
			weight{n("gate"), []int{e, d, f}, in}, weight{n("up"), []int{e, d, f}, in}, weight{n("down"), []int{e, f, d}, fanIn(f) / deep},
		)
	}
	return append(ws, weight{"norm", []int{d}, 0}, weight{"head", []int{d, m.Vocab}, in})
}

// program traces a step. Its results are the loss and the balancing loss, and each weight with its
// moments.
func (m languageModel) program() (*graph.Program, error) {
	return graph.Trace("train_step", func(t *graph.Tracer) []*graph.Value {
		bytes, targets := t.Input("bytes", graph.I32, m.Batch, m.Seq), t.Input("targets", graph.I32, m.Batch, m.Seq)
		rate, number := t.Input("rate", graph.F32), t.Input("step", graph.I32)
		w := map[string]*graph.Value{}
		var list []*graph.Value
		for _, p := range m.weights() {
			w[p.name] = t.Input("w_"+p.name, graph.F32, p.shape...)
			list = append(list, w[p.name])
		}
		ce, total := m.loss(w, bytes, targets)
		gs := vjp.Gradients(total, list...)
		var squares *graph.Value
		for _, g := range gs {
			if s := primitives.ReduceSumUnordered(primitives.Square(g)); squares == nil {
				squares = s
			} else {
				squares = primitives.Add(squares, s)
			}
		}
		norm := primitives.Sqrt(squares)
		limit := primitives.Min(primitives.FullLike(norm, 1), primitives.Div(primitives.FullLike(norm, m.Clip), norm))
		out := []*graph.Value{ce.Named("loss")}
		for i, p := range m.weights() {
			step := primitives.AdamWOp{B1: m.Beta1, B2: m.Beta2, Eps: m.Eps}
			if len(p.shape) > 1 {
				step.WeightDecay = m.Decay
			}
			mo, ve := t.Input("m_"+p.name, graph.F32, p.shape...), t.Input("v_"+p.name, graph.F32, p.shape...)
			nw, nm, nv := primitives.AdamW(list[i], mo, ve, gs[i], rate, number, limit, step)
			out = append(out, nw.Named("new_w_"+p.name), nm.Named("new_m_"+p.name), nv.Named("new_v_"+p.name))
		}
		return out
	})
}

// loss returns the mean cross-entropy, and the total minimized by training.
func (m languageModel) loss(w map[string]*graph.Value, bytes, targets *graph.Value) (ce, total *graph.Value) {
	x := primitives.Embedding(w["embed"], bytes)
	b, s, d := x.Dim(0), x.Dim(1), x.Dim(2)
	aux := primitives.FullLike(primitives.ReduceSum(x), 0)
	for l := range m.Layers {
		n := func(s string) *graph.Value { return w[fmt.Sprintf("l%d_%s", l, s)] }
		y := primitives.RMSNorm(x, n("norm1"), 1e-5)
		heads := func(w *graph.Value) *graph.Value {
			return primitives.Reshape(primitives.MatMul(y, w), b, s, m.Heads, d/m.Heads)
		}
		q, k, v := primitives.RoPE(heads(n("wq")), nil, primitives.RoPEOp{}), primitives.RoPE(heads(n("wk")), nil, primitives.RoPEOp{}), heads(n("wv"))
		out, _ := primitives.Attention(q, k, v, primitives.AttentionParams{})
		x = primitives.Add(x, primitives.MatMul(primitives.Reshape(out, b, s, d), n("wo")))

		y = primitives.RMSNorm(x, n("norm2"), 1e-5)
		logits := primitives.MatMul(y, n("router"))
		weights, experts, scores := primitives.Route(primitives.RouteOp{TopK: m.TopK, Renormalize: true}, logits, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: m.Experts, Label: fmt.Sprintf("moe%d", l)}, experts)
		rows, rowWeights := primitives.DispatchWeighted(r, y, weights)
		z := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, n("gate")), primitives.GroupedMatMul(r, rows, n("up"))), n("down"))
		x = primitives.Add(x, primitives.Combine(r, primitives.Mul(z, primitives.BroadcastInDim(rowWeights, z.Type.Shape, 0))))
		aux = primitives.Add(aux, primitives.Add(primitives.MulScalar(primitives.LoadBalanceLoss(scores, r.Demand, m.TopK), m.Balance), primitives.MulScalar(primitives.RouterZLoss(logits), m.ZLoss)))
	}
	logits := primitives.MatMul(primitives.RMSNorm(x, w["norm"], 1e-5), w["head"])
	ce = primitives.MulScalar(primitives.ReduceSum(primitives.CrossEntropy(logits, targets)), 1/float64(bytes.Type.Len()))
	return ce, primitives.Add(ce, primitives.MulScalar(aux, 1/float64(m.Layers)))
}

// open makes weights and a batch and runs the first steps. All further steps train on the same
// batch.
func (m languageModel) open(threads int) (*subject, error) {
	p, err := m.program()
	if err != nil {
		return nil, err
	}
	in := map[string]array.Array{}
	cfg := gomoe.Config{Donate: map[string]int{}}
	for i, w := range m.weights() {
		a := normal(uint64(i+1), w.std, graph.F32, w.shape...)
		if w.std == 0 {
			a.Fill(1)
		}
		in["w_"+w.name] = a
		for j, prefix := range []string{"w_", "m_", "v_"} {
			cfg.Donate[prefix+w.name] = 1 + 3*i + j
		}
	}
	ids := func(shift int) array.Array {
		a := array.New(graph.Type{DType: graph.I32, Shape: []int{m.Batch, m.Seq}})
		for i := range array.Data[int32](a) {
			array.Data[int32](a)[i] = int32((i + shift) * (i + shift) % 97)
		}
		return a
	}
	in["bytes"], in["targets"] = ids(0), ids(1)

	runtime.GOMAXPROCS(threads)
	job, err := gomoe.Open(context.Background(), p, cfg)
	if err != nil {
		return nil, err
	}
	placed := map[string]*gomoeruntime.Array{}
	for _, v := range p.In {
		a, ok := in[v.Name]
		if !ok { // moments, and values changing from step to step
			a = array.New(v.Type)
		}
		if placed[v.Name], err = job.Put(v.Name, a); err != nil {
			return nil, err
		}
	}
	if placed["rate"], err = job.Put("rate", array.Scalar(float32(m.Rate))); err != nil {
		return nil, err
	}
	number := int32(0)
	step := func() (array.Array, error) {
		number++
		if placed["step"], err = job.Put("step", array.Scalar(number)); err != nil {
			return array.Array{}, err
		}
		out, err := job.Run(context.Background(), placed)
		if err != nil {
			return array.Array{}, err
		}
		for i, w := range m.weights() {
			for j, prefix := range []string{"w_", "m_", "v_"} {
				placed[prefix+w.name] = out[1+3*i+j]
			}
		}
		return out[0].Get()
	}
	losses := array.New(graph.Type{DType: graph.F32, Shape: []int{firstSteps}})
	for i := range firstSteps {
		loss, err := step()
		if err != nil {
			return nil, err
		}
		array.Data[float32](losses)[i] = array.Data[float32](loss)[0]
	}
	norms := array.New(graph.Type{DType: graph.F32, Shape: []int{len(m.weights())}})
	for i, w := range m.weights() {
		a, err := placed["w_"+w.name].Get()
		if err != nil {
			return nil, err
		}
		array.Data[float32](norms)[i] = float32(norm(a))
	}
	return &subject{in: in, want: map[string]array.Array{"losses": losses, "norms": norms}, close: job.Close, step: func() error {
		_, err := step()
		return err
	}}, nil
}

// norm returns the root of the sum of squares.
func norm(a array.Array) float64 {
	sum := 0.0
	for _, x := range a.Float64s() {
		sum += x * x
	}
	return math.Sqrt(sum)
}
