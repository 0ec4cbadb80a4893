package models

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// widest is the maximum number of columns per head, because that many frequencies are computed before any tensor is
// checked.
const widest = 1 << 16

// RopeFactors is the GGUF tensor f32[pairs] holding divisors of the position frequencies.
const RopeFactors = "rope_freqs.weight"

// ropeSettings locates the rotary settings of layers in config.json.
type ropeSettings struct {
	in    string // object: rope_scaling, rope_parameters, or a member of them for one kind of attention
	other string // object repeating the settings; "" if there is none
}

// key returns the keys of a member.
func (s ropeSettings) key(name, gguf string) Keys { return Keys{s.in + "." + name, gguf} }

// ropeSettings locates the rotary settings for layers of a kind of attention. transformers 4 writes rope_scaling,
// with rope_theta and partial_rotary_factor next to it. transformers 5 writes all of them into rope_parameters, or
// into a member of it for each kind of attention.
func (r *Reader) ropeSettings(attention string) (s ropeSettings) {
	const old, new = "rope_scaling", "rope_parameters"
	r.read[old], r.read[new] = true, true
	first, _ := r.c.Value(old)
	second, is := r.c.Value(new)
	switch {
	case states(first) && states(second):
		s = ropeSettings{old, new}
	case is && !states(first): // even if empty: it replaces the family's scaling by plain positions
		s.in = new
	default:
		s.in = old
	}
	nested := func(object string) string {
		o, ok, err := r.c.Object(object)
		if !ok || err != nil {
			return object
		}
		for _, kind := range []string{fullAttention, slidingAttention} {
			_, ok := o.Value(kind)
			switch f := r.family.Name; {
			case !ok:
			case !r.family.LayerKinds:
				r.Fail(fmt.Errorf("%s: transformers does not read %s.%s for architecture %q; put its members into %s, or take it out", r.c.Path, object, kind, f, object))
			case !o.Has(attention):
				r.Fail(fmt.Errorf("%s: %s has %s without %s, want both", r.c.Path, object, kind, attention))
			}
		}
		if _, ok := o.Value(attention); ok {
			return object + "." + attention
		}
		return object
	}
	if s.in = nested(s.in); s.other != "" {
		s.other = nested(s.other)
	}
	return s
}

// kind returns the kind of position scaling.
func (s ropeSettings) kind(r *Reader) string {
	usual := "default"
	if _, ok := r.c.Value(".rope.scaling.type"); !ok && r.c.GGUF() { // llama.cpp scales linearly if a file has only a factor
		if f, ok, err := r.c.Float(r.key(s.factor(r))); ok && err == nil && f != 0 {
			usual = "linear"
		}
	}
	return r.TextOr(r.Either(s.key("rope_type", ".rope.scaling.type"), s.key("type", ".rope.scaling.type")), usual)
}

// factor returns the keys of the length factor. Old converters use another key.
func (s ropeSettings) factor(r *Reader) Keys {
	return r.Either(s.key("factor", ".rope.scaling.factor"), s.key("factor", ".rope.scale_linear"))
}

// RoPE reads the rotation of heads of the given width, or of the rotated part of their columns, in layers with full
// attention.
func (r *Reader) RoPE(width int) nn.RoPE { return r.ropeOf(fullAttention, width) }

// SlidingRoPE is RoPE for layers with sliding windows. full is the result of RoPE. GGUF files have one setting for
// both.
func (r *Reader) SlidingRoPE(width int, full nn.RoPE) nn.RoPE {
	said := slices.Clone(r.said)
	op := r.ropeOf(slidingAttention, width)
	r.said = said
	if !reflect.DeepEqual(op, full) {
		r.Say(Keys{"rope_parameters"}, "a setting for each kind of attention", false)
	}
	return op
}

func (r *Reader) ropeOf(attention string, width int) (op nn.RoPE) {
	in := r.ropeSettings(attention)
	base := r.NumberOr(Keys{"rope_theta", ".rope.freq_base"}, 10000)
	base = r.NumberOr(in.key("rope_theta", ""), base)
	if !(base > 0) {
		r.Fail(fmt.Errorf("%s: rope_theta is %s, want a number above 0", r.c.Path, quoted.Value(base)))
	}
	share := r.NumberOr(Keys{partialRotary, ""}, 1)
	share = r.NumberOr(in.key(partialRotary, ""), share)
	_, heeds := r.family.Defaults[partialRotary]
	if !heeds && share != 1 {
		r.Fail(fmt.Errorf("%s: %s is %s, want 1: gomoe knows no other for this architecture", r.c.Path, partialRotary, quoted.Value(share)))
	}
	part := r.SizeOr(Keys{"", ".rope.dimension_count"}, int(float64(width)*share))
	if r.err == nil && width > widest {
		r.Fail(fmt.Errorf("%s: heads of %d columns, want at most %d", r.c.Path, width, widest))
	}
	if r.err == nil && (part < 2 || part > width || part%2 != 0) {
		r.Fail(fmt.Errorf("%s: %d of the %d columns of a head are rotated, want an even number up to all of them", r.c.Path, part, width))
	}

	op.Base = base
	if r.err != nil {
		return op
	}
	r.Say(Keys{"rope_theta", ".rope.freq_base"}, base, false)
	r.Say(in.key("rope_theta", ""), nil, true)
	r.Say(in.key(partialRotary, ""), nil, true)
	r.Say(Keys{"", ".rope.dimension_count"}, part, heeds || part == width)
	r.Say(Keys{partialRotary}, nil, true)
	if part != width {
		op.Width = part
		r.Say(Keys{partialRotary}, float64(part)/float64(width), true)
	}
	kind := in.kind(r)
	r.Say(in.key("type", ".rope.scaling.type"), nil, true)
	scaled := in.key("rope_type", ".rope.scaling.type")
	r.Say(scaled, kind, kind == "default")
	factor, original := in.factor(r), r.original(in)
	magnitude := 1.0
	for _, gguf := range []string{".rope.scaling.yarn_attn_factor", ".rope.scaling.attn_factor"} {
		magnitude *= r.NumberOr(Keys{"", gguf}, 1)
		r.Say(Keys{"", gguf}, nil, true)
	}
	switch kind {
	case "default", "none":
		r.Say(scaled, "default", true)
	case "linear":
		op.RoPEOp = nn.LinearRoPE{Factor: r.lengthFactor(factor)}.RoPE(base, part)
	case "dynamic":
		op.Factor, op.Original = r.Positive(factor), r.Size(Keys{"max_position_embeddings", ".context_length"})
		r.growing(in, kind)
	case "longrope":
		long, short := r.numbers(in.key("long_factor", ""), part/2), r.numbers(in.key("short_factor", ""), part/2)
		context := float64(r.Size(Keys{"max_position_embeddings", ".context_length"}))
		l := nn.LongRoPE{Factors: short, Factor: r.NumberOr(factor, context/original), Original: original, Magnitude: r.NumberOr(in.key("attention_factor", ""), 0)}
		op.RoPEOp, op.Original = l.RoPE(base, part), int(original)
		l.Factors = long
		op.Long = l.RoPE(base, part).Frequencies
		r.growing(in, kind)
	case "llama3":
		const here = "" // GGUF files store only the resulting factors
		numbers := []Keys{{factor[0], here}, in.key("low_freq_factor", here), in.key("high_freq_factor", here)}
		y := nn.Llama3RoPE{Factor: r.Positive(numbers[0]), Original: original, Low: r.Positive(numbers[1]), High: r.Positive(numbers[2])}
		op.RoPEOp = y.RoPE(base, part)
		r.Say(scaled, nil, true) // in GGUF files the tensor RopeFactors replaces the scaling
		r.Say(Keys{scaled[0]}, kind, true)
		for i, x := range []float64{y.Factor, y.Low, y.High} {
			r.Say(numbers[i], x, true)
		}
		r.Say(in.key("original_max_position_embeddings", here), original, true)
		r.factors = factorsOf(op.RoPEOp, nn.LinearRoPE{Factor: 1}.RoPE(base, part))
	case "yarn":
		y := nn.YaRN{
			Original:     original,
			Fast:         r.NumberOr(in.key("beta_fast", ".rope.scaling.yarn_beta_fast"), 0),
			Slow:         r.NumberOr(in.key("beta_slow", ".rope.scaling.yarn_beta_slow"), 0),
			Fractions:    !r.FlagOr(in.key("truncate", yarnTruncate), !r.fractions),
			Magnitude:    r.NumberOr(in.key("attention_factor", ""), 0),
			MScale:       r.NumberOr(in.key("mscale", ""), 0),
			MScaleAllDim: r.NumberOr(in.key("mscale_all_dim", ""), 0),
		}
		if o, _, err := r.c.Object(in.in); err == nil && o.Has("factor") && r.NumberOr(factor, 0) == 0 { // null
			context, _, _ := r.c.Float("max_position_embeddings")
			y.Factor = context / original
			r.Say(factor, y.Factor, false)
		} else {
			y.Factor = r.lengthFactor(factor)
		}
		r.Only(Keys{"", ".rope.scaling.yarn_ext_factor"}, "1", "-1")
		r.Say(in.key("original_max_position_embeddings", ".rope.scaling.original_context_length"), original, false)
		if m := r.NumberOr(Keys{"", yarnLog}, 0); m != 0 {
			y.MScale, y.MScaleAllDim = m, m
			r.Say(in.key("mscale", ""), 10*m, true)
		} else if y.MScale == y.MScaleAllDim {
			r.Say(in.key("mscale", ""), y.MScale, true)
		}
		op.RoPEOp = y.RoPE(base, part)
	default:
		r.Fail(fmt.Errorf("%s: the rotary positions are scaled by %s, want one of default dynamic linear llama3 longrope yarn", r.c.Path, quoted.Name(kind)))
	}
	if magnitude != 1 {
		if op.Magnitude == 0 {
			op.Magnitude = 1
		}
		op.Magnitude *= magnitude
		r.Say(in.key("attention_factor", ""), op.Magnitude, true)
	}
	if t, err := r.files.Tensor(RopeFactors); r.c.GGUF() && err == nil {
		a, err := t.Array()
		if err != nil || t.Type.DType != graph.F32 || t.Type.Len() != part/2 || kind != "default" && kind != "none" {
			r.Fail(fmt.Errorf("%s: tensor %s is %s%v beside a scaling of %s, want F32[%d] and no scaling", t.File, quoted.Name(t.Name), t.Stored, t.Type.Shape, quoted.Name(kind), part/2))
			return op
		}
		long := nn.LongRoPE{Magnitude: 1}
		r.factors = slices.Clone(array.Data[float32](a))
		for _, f := range r.factors {
			long.Factors = append(long.Factors, float64(f))
		}
		op.RoPEOp = long.RoPE(base, part)
		scaling, found := llama3Of(r.factors, base)
		r.Say(Keys{"", RopeFactors}, "a tensor", found)
		if found {
			r.Say(scaled, "llama3", true)
			for name, x := range map[string]float64{"factor": scaling.Factor, "low_freq_factor": scaling.Low, "high_freq_factor": scaling.High} {
				r.Say(in.key(name, ""), x, true)
			}
			r.Say(in.key("original_max_position_embeddings", ""), int(scaling.Original), true)
		}
	}
	for _, yarn := range []string{"beta_fast", "beta_slow", "truncate"} { // llama.cpp ignores them for other kinds of scaling
		r.read[".rope.scaling.yarn_"+yarn] = true
	}
	r.ropeKnown(in)
	r.ropeAgree(in, map[string]any{"rope_theta": base, "rope_type": kind, "type": kind, "partial_rotary_factor": share, "original_max_position_embeddings": original})
	if r.err == nil && slices.ContainsFunc(slices.Concat(op.Frequencies, op.Long), func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }) {
		r.Fail(fmt.Errorf("%s: %s gives positions that are not finite; check its numbers", r.c.Path, in.in))
	}
	return op
}

// lengthFactor returns the length factor. Like llama.cpp, it defaults to 1 in GGUF files.
func (r *Reader) lengthFactor(k Keys) float64 {
	if x, _, err := r.c.Float(r.key(k)); err == nil && x == 0 && r.c.GGUF() {
		r.Say(k, 1.0, false)
		return 1
	}
	return r.Positive(k)
}

// growing records that the frequencies depend on the length of the text, for which GGUF files have no key.
func (r *Reader) growing(in ropeSettings, kind string) {
	r.Say(in.key("rope_type", ".rope.scaling.type"), nil, true)
	r.Say(in.key("factor", ".rope.scaling.factor"), nil, true)
	r.Say(in.key("rope_type", ""), kind, r.c.GGUF())
	if r.c.GGUF() {
		r.Fail(fmt.Errorf("%s: %s is %s, which gomoe knows in config.json alone", r.c.Path, r.named(".rope.scaling.type"), quoted.Name(kind)))
	}
}

// numbers returns a setting of config.json that is a list of n positive numbers.
func (r *Reader) numbers(k Keys, n int) []float64 {
	v, _ := r.c.Value(r.key(k))
	items, _ := v.([]any)
	var out []float64
	for _, item := range items {
		if x, ok := item.(float64); ok && x > 0 {
			out = append(out, x)
		}
	}
	if len(out) != n || len(items) != n {
		r.Fail(fmt.Errorf("%s: %s has %d elements, want %d numbers above 0", r.c.Path, k[0], len(items), n))
	}
	return out
}

// original returns the length of the training texts before position scaling. It defaults to the context length.
func (r *Reader) original(in ropeSettings) float64 {
	const name = "original_max_position_embeddings"
	k := r.Either(in.key(name, ".rope.scaling.original_context_length"), Keys{name, ".rope.scaling.original_context_length"})
	context, _, err := r.c.Float(r.key(Keys{"max_position_embeddings", ".context_length"}))
	r.Fail(err)
	x := r.NumberOr(k, context)
	r.Say(k, nil, true)
	if x < 0 {
		r.Fail(fmt.Errorf("%s: %s is %s, want a number above 0", r.c.Path, r.named(r.key(k)), quoted.Value(x)))
	}
	return x
}

// ropeMembers lists the known members of a rotary object. transformers ignores members that the kind of scaling
// does not use.
func ropeMembers() []string {
	return []string{
		"attention_factor", "attn_factor", "beta_fast", "beta_slow", "factor", "finetuned", "high_freq_factor", "long_factor", "low_freq_factor", "mscale",
		"mscale_all_dim", "original_max_position_embeddings", "partial_rotary_factor", "rope_theta", "rope_type", "short_factor", "truncate", "type",
	}
}

// ropeKnown fails if a rotary object has a member that no kind of scaling uses.
func (r *Reader) ropeKnown(in ropeSettings) {
	for _, object := range []string{in.in, in.other} {
		if object == "" {
			continue
		}
		for _, name := range ropeMembers() {
			r.read[object+"."+name] = true
		}
		r.Only(Keys{object + ".extrapolation_factor", ""}, "1")
		if outer, _, nested := strings.Cut(object, "."); nested {
			r.read[outer+"."+fullAttention], r.read[outer+"."+slidingAttention] = true, true
			r.known(outer)
		}
		r.known(object)
	}
}

// ropeAgree fails if two objects define the rotation and contradict each other.
func (r *Reader) ropeAgree(in ropeSettings, used map[string]any) {
	if in.other == "" {
		return
	}
	o, _, err := r.c.Object(in.other)
	r.Fail(err)
	for _, name := range o.Keys() {
		v, _ := o.Value(name)
		is, resolved := used[name]
		if !resolved {
			is, resolved = r.c.Value(in.in + "." + name)
		}
		if !reflect.DeepEqual(v, is) && (resolved || used["rope_type"] != "default") {
			r.Fail(fmt.Errorf("%s: %s.%s is %s, and %s gives %s; take one of the two objects out", r.c.Path, in.other, name, quoted.Value(v), in.in, quoted.Value(is)))
		}
	}
}

// factorsOf returns the factors dividing the plain frequencies to give the scaled ones.
func factorsOf(scaled, plain primitives.RoPEOp) []float32 {
	f := make([]float32, len(plain.Frequencies))
	for i := range f {
		f[i] = float32(plain.Frequencies[i] / scaled.Frequencies[i])
	}
	return f
}

// yarnTruncate is a key of GGUF files written by gomoe: whether YaRN's range of pairs begins and ends with whole
// pairs. llama.cpp does not read it and always rounds. A GGUF file of gpt-oss without the key is taken for the
// published model, which uses fractions.
const yarnTruncate = ".rope.scaling.yarn_truncate"

// llama3Of returns the Llama 3 scaling that yields the given divisors of the position frequencies, or false if
// there is none. The divisors determine two of its four numbers; the other two, the limits of turns, are 1 and 4 in
// all models of the family.
func llama3Of(factors []float32, base float64) (s nn.Llama3RoPE, ok bool) {
	s = nn.Llama3RoPE{Factor: float64(factors[len(factors)-1]), Low: 1, High: 4}
	plain := nn.LinearRoPE{Factor: 1}.RoPE(base, 2*len(factors))
	most := math.Inf(1) // upper bound of Original
	for i := len(factors) - 1; i >= 0 && s.Original == 0; i-- {
		turns := plain.Frequencies[i] / (2 * math.Pi) // per token of text
		switch f := float64(factors[i]); {
		case f == s.Factor:
			most = s.Low / turns
		case f > 1:
			kept := (1/f - 1/s.Factor) / (1 - 1/s.Factor)
			s.Original = math.Round((float64(kept*(s.High-s.Low)) + s.Low) / turns)
		default: // no pair lies between the limits; any length in between gives the same factors
			if least := s.High / turns; least < most {
				s.Original = math.Ceil((least + most) / 2)
			}
		}
	}
	if !(s.Factor > 1 && s.Original > 0 && s.Original <= math.MaxInt32) {
		return s, false
	}
	for i, f := range factorsOf(s.RoPE(base, 2*len(factors)), plain) {
		if math.Abs(float64(f)-float64(factors[i])) > 2e-6*float64(f) {
			return s, false
		}
	}
	return s, true
}

// yarnLog is a key of DeepSeek's GGUF files: a tenth of mscale_all_dim, which equals mscale.
const yarnLog = ".rope.scaling.yarn_log_multiplier"

// scoreScale returns DeepSeek's factor of attention scores for scaled positions: (0.1·m·ln(factor) + 1)² with m =
// mscale_all_dim. For GGUF files without m, or with linear scaling, it is multiplied by (0.1·ln(factor) + 1)². It
// is 1 if the model does not set m or does not scale positions.
func (r *Reader) scoreScale() float64 {
	in := r.ropeSettings(fullAttention)
	kind := in.kind(r)
	m := r.NumberOr(in.key("mscale_all_dim", ""), 0) / 10
	if r.c.GGUF() {
		m = r.NumberOr(Keys{"", yarnLog}, 0)
	}
	r.Say(Keys{"", yarnLog}, m, true)
	r.Say(in.key("mscale_all_dim", ""), 10*m, true)
	k := in.factor(r)
	factor := r.NumberOr(k, 1)
	if factor == 1 {
		r.Say(k, nil, true)
	}
	if factor <= 1 || kind == "default" || kind == "none" {
		return 1
	}
	x := float64(m*math.Log(factor)) + 1
	if r.c.GGUF() && (m == 0 || kind == "linear") { // llama.cpp, src/models/deepseek2.cpp: mscale is then 1
		x *= float64(0.1*math.Log(factor)) + 1
		r.Say(Keys{"", yarnLog}, m, false)
	}
	return x * x
}

// Positive returns a required positive number.
func (r *Reader) Positive(k Keys) float64 {
	x, ok, err := r.c.Float(r.key(k))
	if d, is := r.fallback(k).(float64); is {
		x, ok = d, true
	}
	if err == nil && !(ok && x > 0) {
		err = fmt.Errorf("%s: %s is %s or missing, want a number above 0", r.c.Path, r.named(r.key(k)), quoted.Value(x))
	}
	r.Fail(err)
	r.Say(k, x, false)
	return x
}

// known fails if an object of config.json has an unread member that may affect results.
func (r *Reader) known(object string) {
	if r.c.GGUF() {
		return
	}
	o, ok, err := r.c.Object(object)
	if r.Fail(err); !ok || err != nil {
		return
	}
	for _, key := range o.Keys() {
		v, _ := o.Value(key)
		if name := object + "." + key; !r.read[name] && states(v) && !strings.HasPrefix(key, "_") {
			r.Fail(fmt.Errorf("%s: setting %s is not known and may change results; take it out of the file if it does not", r.c.Path, quoted.JSON([]byte(name))))
		}
	}
}
