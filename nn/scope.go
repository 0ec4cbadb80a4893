package nn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Options say how a model is traced.
type Options struct {
	// DType is the element type to calculate in; zero means F32.
	DType graph.DType
	// Stored returns the form in which a parameter is given, such as one in blocks.
	// nil means numbers of DType for all.
	Stored func(Param) (Form, error)
	// Exchange and Wire are how rows come home from the experts, in layers that do not say it themselves: see
	// pr.PrepareOp. The zero values give the bits of one rank.
	Exchange ep.Exchange
	Wire     graph.DType
	// Copies returns the copies of a layer's experts, nil for none, in layers that do not say it themselves: see MoE.Copies.
	// nil means none in all layers.
	Copies func(layer string, experts int) (ep.Copies, error)
	// LoRA, if it is not nil, freezes all parameters and adds adapters that learn.
	LoRA *LoRA
	// Masters has the model convert parameters that are given as F32 to DType where it uses them, so that training keeps
	// what 16 bits would round away. Biases by which experts are chosen stay F32.
	Masters bool
	// Gather has the model bring every parameter to the placement that it declares where it uses it, because training
	// splits it further.
	Gather bool
	// Remat is what the gradient computes again of the layers of models.
	Remat Remat
	// Key returns the key u32[2] of what the model draws, such as an input that is another one in every step. It is called
	// where a layer draws for the first time; nil means that nothing is dropped.
	Key func(*graph.Tracer) *graph.Value
}

// Scope is a part of a model, in which parameters are declared. Names have two forms: those of
// Hugging Face's files, which are also those of the program's inputs, and those of GGUF files.
type Scope struct {
	*model
	name, gguf string    // of the scope, each with a dot at the end unless it is empty
	copies     ep.Copies // of the experts whose parameters are declared
}

// model is what all scopes of a trace have in common.
type model struct {
	t      *graph.Tracer
	opts   Options
	params []Param
	values []*graph.Value
	index  map[string]int   // of the parameter with a name
	shapes map[string][]int // as layers declare them
	routed []Routed

	adapters []Adapter
	key      *graph.Value // of what is dropped
	drops    int          // how many times

	choose func(layer string, chosen *graph.Value) *graph.Value
}

// Param is a parameter of a model.
type Param struct {
	// Name is the parameter's name in Hugging Face's files, and of its input. A star stands for
	// the number of an expert: the parameter has dimension 0 for it, and files may have a
	// tensor for each.
	Name string
	GGUF string // its name in GGUF files; "" if they do not have it
	Type graph.Type
	Init Init
	// Place has, per dimension, the mesh axis that splits it, or "".
	Place []string
	// Frozen says that training does not change it.
	Frozen bool
	// Affine, if it is not zero, says that the parameter is a matrix in MLX's affine quantisation: Type is that of its words.
	Affine Affine
	// Scales says that the parameter has scales or biases of another one's numbers, and no numbers of its own.
	Scales bool
	// Copies, if it is not nil, is of which expert each index of dimension 0 is. Files have one of each expert. The parameter
	// with the name CopiesName is this table, and is in no file.
	Copies ep.Copies
}

// CopiesName is the name of the table of a layer's copies, i32[copies], behind that of the layer.
const CopiesName = "experts.copies"

// Init says how a parameter begins in training: normally distributed with standard deviation
// Std around Mean.
type Init struct{ Mean, Std float64 }

// New returns the scope of a whole model.
func New(t *graph.Tracer, o Options) *Scope {
	if o.DType == graph.NoDType {
		o.DType = graph.F32
	}
	return &Scope{model: &model{t: t, opts: o, index: map[string]int{}, shapes: map[string][]int{}}}
}

// In returns the scope of a part with a name, and with another in GGUF files. An empty name
// adds nothing.
func (s *Scope) In(name, gguf string) *Scope {
	return &Scope{s.model, join(s.name, name), join(s.gguf, gguf), nil}
}

func join(scope, name string) string {
	if name == "" {
		return scope
	}
	return scope + name + "."
}

// Enter has errors, plans and traces name the scope, until the function that it returns is
// called: defer s.Enter()().
func (s *Scope) Enter() (end func()) { return s.t.Scope("%s", strings.TrimSuffix(s.name, ".")) }

// Tracer returns the tracer of the model.
func (s *Scope) Tracer() *graph.Tracer { return s.t }

// DType returns the element type to calculate in.
func (s *Scope) DType() graph.DType { return s.opts.DType }

// Params returns all parameters that have been declared, in order.
func (s *Scope) Params() []Param { return slices.Clone(s.params) }

// Routed returns what the layers of experts that have been applied say about the step, in order.
func (s *Scope) Routed() []Routed { return slices.Clone(s.routed) }

// Report adds what a layer of experts says, to Routed. MoE calls it, and so does a layer of a model's own.
func (s *Scope) Report(r Routed) { s.routed = append(s.routed, r) }

// Choose has every layer of experts that is applied from now on, anywhere in the model, send tokens to the experts that
// choose returns. It is given the name of the layer's scope and what the router has chosen, i32[..,K], and returns that or
// another value of the type, with different experts for each token. Their weights are computed of the router's scores by
// simple primitives in either case, so that both have the same bits.
func (s *Scope) Choose(choose func(layer string, chosen *graph.Value) *graph.Value) {
	s.choose = choose
}

// Values returns the values of Params.
func (s *Scope) Values() []*graph.Value { return slices.Clone(s.values) }

// Param declares a parameter of the scope, or returns the value of one that was declared before
// with the same shape. Its element type is that in which it is given. Parameters of 8-bit floats
// are split by experts only, as the products with them want it.
func (s *Scope) Param(name, gguf string, init Init, place []string, shape ...int) *graph.Value {
	graph.Helper()
	v := s.param(name, gguf, init, place, graph.T(s.opts.DType, shape...))
	if s.affine(name) != (Affine{}) {
		graph.Fail("parameter %s is quantised as MLX does it, want numbers: this layer does not read others", s.name+name)
	}
	return v
}

func (s *Scope) param(name, gguf string, init Init, place []string, t graph.Type) *graph.Value {
	graph.Helper()
	p := Param{Name: s.name + name, Init: init, Place: place, Type: t, Frozen: s.opts.LoRA != nil, Copies: s.copies}
	if gguf != "" {
		p.GGUF = s.gguf + gguf
	}
	if len(place) > t.Rank() {
		graph.Fail("parameter %s of shape %v is placed by %q, want at most one axis per dimension", p.Name, t.Shape, place)
	}
	if _, old := s.index[p.Name]; !old && s.opts.Stored != nil {
		form, err := s.opts.Stored(p)
		if err == nil && form.Affine != (Affine{}) {
			p.Affine = form.Affine
			p.Type, _, err = pr.AffineWeights(t, p.Affine.Bits, p.Affine.GroupSize)
		}
		if err != nil {
			graph.Fail("parameter %s: %w", p.Name, err)
		}
		if p.Type.DType = form.DType; p.Type.DType.IsF8() || p.Affine != (Affine{}) {
			p.Place = experts(place)
		}
	}
	return s.declare(p, t.Shape)
}

// declare declares a parameter with the element type that it has. shape is the one that the layer has asked for.
func (s *Scope) declare(p Param, shape []int) *graph.Value {
	graph.Helper()
	if i, ok := s.index[p.Name]; ok {
		if old := s.shapes[p.Name]; !slices.Equal(old, shape) {
			graph.Fail("parameter %s has shape %v, and was declared before with %v", p.Name, shape, old)
		}
		return s.used(s.params[i], s.values[i])
	}
	v := s.t.Input(p.Name, p.Type.DType, p.Type.Shape...)
	s.index[p.Name], s.shapes[p.Name] = len(s.params), shape
	s.params, s.values = append(s.params, p), append(s.values, v)
	return s.used(p, v)
}

// used returns a parameter as a layer uses it, in the trace of that layer. It is gathered before it is rounded, so that
// gradients are added up in its own type.
func (s *Scope) used(p Param, v *graph.Value) *graph.Value {
	if s.opts.Gather {
		place := make([]string, v.Rank())
		copy(place, p.Place)
		v = pr.ShardingConstraint(s.t.Innermost().Inside(v), place...)
	}
	if s.opts.Masters && v.Type.DType == graph.F32 && s.opts.DType != graph.F32 && !strings.HasSuffix(p.Name, "_bias") {
		v = pr.ConvertElementType(s.t.Innermost().Inside(v), s.opts.DType)
	}
	return v
}

// experts returns a placement without its axes but that of experts.
func experts(place []string) []string {
	var only []string
	for d, axis := range place {
		if axis == "ep" {
			only = append(make([]string, d), axis)
		}
	}
	return only
}

// Spec returns the parameter's placement on a mesh, without the axes that the mesh lacks.
func (p Param) Spec(m sharding.Mesh) sharding.Spec {
	return sharding.Split(p.Place...).On(m)
}

// Places returns the placements of parameters on a mesh, as gomoe.Config has them.
func Places(params []Param, m sharding.Mesh) map[string]sharding.Spec {
	places := map[string]sharding.Spec{}
	for _, p := range params {
		if spec := p.Spec(m); !spec.Whole() {
			places[p.Name] = spec
		}
	}
	return places
}

// Count returns the numbers that parameters have, and those that a token uses of them where a layer
// uses topK of its experts. Scales and biases of quantised numbers are not counted.
func Count(params []Param, topK int) (all, active int) {
	for _, p := range params {
		n := p.Type.Len()
		if p.Scales {
			continue
		} else if p.Affine.Bits > 0 {
			n *= 32 / p.Affine.Bits
		}
		all += n
		if strings.Contains(p.Name, "*") {
			n = n / p.Type.Shape[0] * min(topK, p.Type.Shape[0])
		}
		active += n
	}
	return all, active
}

// Summary returns a line for every parameter: its name, type and placement.
func Summary(params []Param) string {
	var b strings.Builder
	for _, p := range params {
		fmt.Fprintf(&b, "%s %s\n", p.Name, sharding.Split(p.Place...).Format(p.Type))
	}
	return b.String()
}
