package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// widest is how many columns of a head there may be: as many frequencies are made before a tensor is looked at.
const widest = 1 << 16

// RopeFactors is the tensor f32[pairs] of GGUF files whose elements divide the frequencies of positions.
const RopeFactors = "rope_freqs.weight"

// rope reads how positions rotate the `width` elements of a head, or the part of them that the model says.
func (r *reader) rope(width int) pr.RoPEOp {
	base := r.numberOr(keys{"rope_theta", ".rope.freq_base"}, 10000)
	in := r.ropeObject()
	k := func(name, gguf string) keys { return keys{in + "." + name, gguf} }
	base = r.numberOr(k("rope_theta", ""), base)
	if !(base > 0) {
		r.fail(fmt.Errorf("%s: rope_theta is %g, want a number above 0", r.c.Path, base))
	}
	share := r.numberOr(r.either(k("partial_rotary_factor", ""), keys{"partial_rotary_factor", ""}), 1)
	part := r.sizeOr(keys{"", ".rope.dimension_count"}, int(float64(width)*share))
	if r.err == nil && width > widest {
		r.fail(fmt.Errorf("%s: heads of %d columns, want at most %d", r.c.Path, width, widest))
	}
	if r.err == nil && (part < 2 || part > width || part%2 != 0) {
		r.fail(fmt.Errorf("%s: %d of the %d columns of a head are rotated, want an even number up to all of them", r.c.Path, part, width))
	}

	op := pr.RoPEOp{Base: base}
	if r.err != nil {
		return op
	}
	r.say(keys{"rope_theta", ".rope.freq_base"}, base, false)
	r.say(k("rope_theta", ""), nil, true)
	r.say(k("partial_rotary_factor", ""), nil, true)
	r.say(keys{"", ".rope.dimension_count"}, part, true)
	r.say(keys{"partial_rotary_factor"}, nil, true)
	if part != width {
		op.Width = part
		r.say(keys{"partial_rotary_factor"}, float64(part)/float64(width), true)
	}
	named := r.either(k("rope_type", ".rope.scaling.type"), k("type", ".rope.scaling.type"))
	kind := r.textOr(named, "default")
	factor, original := k("factor", ".rope.scaling.factor"), k("original_max_position_embeddings", ".rope.scaling.original_context_length")
	switch kind {
	case "default", "none":
		r.say(k("rope_type", ".rope.scaling.type"), "default", true)
	case "linear":
		op = pr.LinearRoPE{Factor: r.positive(factor)}.RoPE(base, part)
	case "llama3":
		const here = "" // GGUF files have none of it, but the factors that it makes
		numbers := []keys{k("factor", here), k("original_max_position_embeddings", here), k("low_freq_factor", here), k("high_freq_factor", here)}
		op = pr.Llama3RoPE{Factor: r.positive(numbers[0]), Original: r.positive(numbers[1]), Low: r.positive(numbers[2]), High: r.positive(numbers[3])}.RoPE(base, part)
		for _, n := range numbers {
			r.say(n, nil, true)
		}
		r.say(named, "default", true)
		r.factors = factorsOf(op, pr.LinearRoPE{Factor: 1}.RoPE(base, part))
	case "yarn":
		y := pr.YaRN{
			Factor: r.positive(factor), Original: r.positive(original),
			Fast:         r.numberOr(k("beta_fast", ".rope.scaling.yarn_beta_fast"), 0),
			Slow:         r.numberOr(k("beta_slow", ".rope.scaling.yarn_beta_slow"), 0),
			Fractions:    !r.flagOr(k("truncate", ""), !r.fractions),
			Magnitude:    r.numberOr(k("attention_factor", ""), 0),
			MScale:       r.numberOr(k("mscale", ""), 0),
			MScaleAllDim: r.numberOr(k("mscale_all_dim", ""), 0),
		}
		if m := r.numberOr(keys{"", yarnLog}, 0); m != 0 {
			y.MScale, y.MScaleAllDim = m, m
			r.say(k("mscale", ""), 10*m, true)
		} else if y.MScale == y.MScaleAllDim {
			r.say(k("mscale", ""), y.MScale, true)
		}
		op = y.RoPE(base, part)
	default:
		r.fail(fmt.Errorf("%s: the rotary positions are scaled by %q, want one of default linear llama3 yarn", r.c.Path, kind))
	}
	if t, err := r.files.Tensor(RopeFactors); r.c.GGUF() && err == nil {
		a, err := t.Array()
		if err != nil || t.Type.DType != graph.F32 || t.Type.Len() != part/2 || kind != "default" && kind != "none" {
			r.fail(fmt.Errorf("%s: tensor %q is %s%v beside a scaling of %q, want F32[%d] and no scaling", t.File, t.Name, t.Stored, t.Type.Shape, kind, part/2))
			return op
		}
		long := pr.LongRoPE{Magnitude: 1}
		r.factors = slices.Clone(array.Data[float32](a))
		for _, f := range r.factors {
			long.Factors = append(long.Factors, float64(f))
		}
		op = long.RoPE(base, part)
		r.say(keys{"", RopeFactors}, "a tensor", false)
	}
	r.known(in)
	if r.err == nil && slices.ContainsFunc(op.Frequencies, func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }) {
		r.fail(fmt.Errorf("%s: %s gives positions that are not finite; check its numbers", r.c.Path, in))
	}
	return op
}

// factorsOf returns what divides the frequencies of plain positions where they are scaled.
func factorsOf(scaled, plain pr.RoPEOp) []float32 {
	f := make([]float32, len(plain.Frequencies))
	for i := range f {
		f[i] = float32(plain.Frequencies[i] / scaled.Frequencies[i])
	}
	return f
}

// yarnLog is a key of GGUF files of DeepSeek: a tenth of mscale_all_dim, which mscale is equal to.
const yarnLog = ".rope.scaling.yarn_log_multiplier"

// ropeObject returns the member of config.json that says how positions are scaled.
func (r *reader) ropeObject() string {
	in := "rope_parameters" // where transformers 5 writes everything about positions
	if _, ok := r.c.Value(in); !ok {
		in = "rope_scaling"
	}
	r.read[in] = true
	return in
}

// scoreScale returns the factor of attention scores that DeepSeek has for scaled positions: (0.1·m·ln(factor) + 1)² with
// m = mscale_all_dim. It is 1 if the model does not say m.
func (r *reader) scoreScale() float64 {
	in := r.ropeObject()
	m := r.numberOr(keys{in + ".mscale_all_dim", ""}, 0) / 10
	if r.c.GGUF() {
		m = r.numberOr(keys{"", yarnLog}, 0)
	}
	r.say(keys{"", yarnLog}, m, true)
	r.say(keys{in + ".mscale_all_dim"}, 10*m, true)
	factor := r.numberOr(keys{in + ".factor", ".rope.scaling.factor"}, 1)
	if factor == 1 {
		r.say(keys{in + ".factor", ".rope.scaling.factor"}, nil, true)
	}
	if factor <= 1 {
		return 1
	}
	x := float64(m*math.Log(factor)) + 1
	return x * x
}

// positive returns a setting that must be there, and be a number above 0.
func (r *reader) positive(k keys) float64 {
	x, ok, err := r.c.Float(r.key(k))
	if err == nil && !(ok && x > 0) {
		err = fmt.Errorf("%s: %s is %g or missing, want a number above 0", r.c.Path, r.key(k), x)
	}
	r.fail(err)
	r.say(k, x, false)
	return x
}

// known is an error if an object of config.json has a member that nothing has read.
func (r *reader) known(object string) {
	if r.c.GGUF() {
		return
	}
	o, ok, err := r.c.Object(object)
	if r.fail(err); !ok || err != nil {
		return
	}
	for _, key := range o.Keys() {
		if name := object + "." + key; !r.read[name] {
			r.fail(fmt.Errorf("%s: setting %s is not known and may change results; take it out of the file if it does not", r.c.Path, name))
		}
	}
}
