package nn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Options configures the tracing of a model.
type Options struct {
	// DType is the element type to compute in; zero means F32.
	DType graph.DType
	// Stored returns the stored form of a parameter, such as a block type. If Stored is nil, all parameters are plain
	// numbers of DType.
	Stored func(Param) (Form, error)
	// Exchange and Wire configure the return of experts' outputs to their tokens in layers that leave them unset; see
	// primitives.PrepareOp. Their zero values give the same bits as a single rank.
	Exchange ep.Exchange
	Wire     graph.DType
	// Copies returns the replicas of a layer's experts, or nil for none, in layers that leave MoE.Copies unset. If
	// Copies is nil, no such layer has replicas.
	Copies func(layer string, experts int) (ep.Copies, error)
	// LoRA, if not nil, freezes all parameters and adds trainable adapters.
	LoRA *LoRA
	// Masters converts parameters stored as F32 to DType where the model uses them, so that training keeps updates
	// that would be lost to rounding in 16 bits. Biases used for choosing experts stay F32.
	Masters bool
	// Gather gathers every parameter to its declared placement where the model uses it, because training shards it
	// further.
	Gather bool
	// Remat selects the values of layers to recompute in the backward pass.
	Remat Remat
	// Key returns the key u32[2] for random numbers, such as an input that changes with every step. It is called by
	// the first layer drawing random numbers. If Key is nil, nothing is dropped.
	Key func(*graph.Tracer) *graph.Value
}

// Scope is a named part of a model for declaring parameters. Names have two forms: one for Hugging Face files, also
// used for the program's inputs, and one for GGUF files.
type Scope struct {
	*model
	name, gguf string    // of the scope, each ending with a dot unless empty
	copies     ep.Copies // replicas of the experts being declared
}

// model is shared by all scopes of a trace.
type model struct {
	t      *graph.Tracer
	opts   Options
	params []Param
	values []*graph.Value
	index  map[string]int   // indices into params, by name
	shapes map[string][]int // as requested by layers
	routed []Routed

	adapters []Adapter
	key      *graph.Value // for Dropout
	drops    int          // calls of Dropout

	choose func(layer string, chosen *graph.Value) *graph.Value
}

// Param describes a parameter of a model.
type Param struct {
	// Name is the parameter's name in Hugging Face files and as a program input. A star stands for the number of an
	// expert: dimension 0 of the parameter runs over the experts, which files may store as separate tensors.
	Name string
	GGUF string // name in GGUF files; "" if they lack the parameter
	Type graph.Type
	Init Init
	// Place lists the mesh axis splitting each dimension, or "".
	Place []string
	// Frozen excludes the parameter from training.
	Frozen bool
	// Affine, if not zero, is the MLX quantisation of a matrix; Type then is the type of its packed words.
	Affine Affine
	// Scales marks the scales or biases of another parameter, which are no numbers of the model themselves.
	Scales bool
	// Copies, if not nil, lists the expert at each index of dimension 0. Files store each expert once. The parameter
	// named CopiesName is this table; no file stores it.
	Copies ep.Copies
}

// CopiesName follows a layer's name in the name of its table of replicas, i32[copies].
const CopiesName = "experts.copies"

// Init is the initial distribution of a parameter: normal, with the given mean and standard deviation.
type Init struct{ Mean, Std float64 }

// New returns the root scope of a model.
func New(t *graph.Tracer, o Options) *Scope {
	if o.DType == graph.NoDType {
		o.DType = graph.F32
	}
	return &Scope{model: &model{t: t, opts: o, index: map[string]int{}, shapes: map[string][]int{}}}
}

// In returns the scope of a part, given its name and its name in GGUF files. An empty name adds nothing.
func (s *Scope) In(name, gguf string) *Scope {
	return &Scope{s.model, join(s.name, name), join(s.gguf, gguf), nil}
}

func join(scope, name string) string {
	if name == "" {
		return scope
	}
	return scope + name + "."
}

// Enter names the scope in errors, plans and traces until the returned function is called: defer s.Enter()().
func (s *Scope) Enter() (end func()) { return s.t.Scope("%s", strings.TrimSuffix(s.name, ".")) }

// Tracer returns the tracer of the model.
func (s *Scope) Tracer() *graph.Tracer { return s.t }

// DType returns the element type to compute in.
func (s *Scope) DType() graph.DType { return s.opts.DType }

// Params returns the declared parameters, in order.
func (s *Scope) Params() []Param { return slices.Clone(s.params) }

// Routed returns the routing results of the MoE layers applied so far, in order.
func (s *Scope) Routed() []Routed { return slices.Clone(s.routed) }

// Report appends the routing results of an MoE layer to Routed. MoE calls it; custom layers should as well.
func (s *Scope) Report(r Routed) { s.routed = append(s.routed, r) }

// Choose overrides the choice of experts in every MoE layer applied from now on, anywhere in the model. choose
// receives the layer's name and the router's choice, i32[..,K], and returns it or another value of the same type,
// with distinct experts for each token. In either case simple primitives compute the weights from the router's
// scores, so that both have the same bits.
func (s *Scope) Choose(choose func(layer string, chosen *graph.Value) *graph.Value) {
	s.choose = choose
}

// Values returns the values of Params, in the same order.
func (s *Scope) Values() []*graph.Value { return slices.Clone(s.values) }

// Param declares a parameter of the scope, or returns the value of one declared before with the same shape. Its
// element type is the stored one. Parameters of 8-bit floats are sharded by experts only, as their products
// require.
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
			p.Type, _, err = primitives.AffineWeights(t, p.Affine.Bits, p.Affine.GroupSize)
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

// declare declares a parameter with the given element type. shape is the shape requested by the layer.
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

// used returns a parameter in the form used by the layer being traced. Gathering precedes rounding, so that
// gradients are summed in the parameter's own type.
func (s *Scope) used(p Param, v *graph.Value) *graph.Value {
	if s.opts.Gather {
		place := make([]string, v.Rank())
		copy(place, p.Place)
		v = primitives.ShardingConstraint(s.t.Innermost().Inside(v), place...)
	}
	if s.opts.Masters && v.Type.DType == graph.F32 && s.opts.DType != graph.F32 && !strings.HasSuffix(p.Name, "_bias") {
		v = primitives.ConvertElementType(s.t.Innermost().Inside(v), s.opts.DType)
	}
	return v
}

// experts returns a placement reduced to the axis ep.
func experts(place []string) []string {
	var only []string
	for d, axis := range place {
		if axis == "ep" {
			only = append(make([]string, d), axis)
		}
	}
	return only
}

// Spec returns the parameter's placement on a mesh, leaving out axes missing from the mesh.
func (p Param) Spec(m sharding.Mesh) sharding.Spec {
	return sharding.Split(p.Place...).On(m)
}

// Places returns the placements of parameters on a mesh, for gomoe.Config.
func Places(params []Param, m sharding.Mesh) map[string]sharding.Spec {
	places := map[string]sharding.Spec{}
	for _, p := range params {
		if spec := p.Spec(m); !spec.Whole() {
			places[p.Name] = spec
		}
	}
	return places
}

// Count returns the number of weights in params, and the number used per token if MoE layers choose topK experts.
// Scales and biases of quantised weights are not counted.
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

// Summary lists the parameters, one per line, with name, type and placement.
func Summary(params []Param) string {
	var b strings.Builder
	for _, p := range params {
		fmt.Fprintf(&b, "%s %s\n", p.Name, sharding.Split(p.Place...).Format(p.Type))
	}
	return b.String()
}
