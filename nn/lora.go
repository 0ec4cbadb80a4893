package nn

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// LoRA trains a model by low-rank adapters. A matrix W [out,in] stays frozen in its given element type, which may
// be a block type, and gains two trainable matrices, lora_A [Rank,in] and lora_B [out,Rank]:
//
//	y = x·Wᵀ + Alpha/Rank · (dropout(x)·lora_Aᵀ)·lora_Bᵀ
//
// lora_B is initialised to zeros, so training starts from the unmodified model. A stack of experts [E,out,in] has
// one adapter per expert, lora_A [E,Rank,in] and lora_B [E,out,Rank]. Adapters are stored as f32. Adapters of
// linear layers are computed in f32, adapters of experts in the type of the rows. Source: Hu and others, "LoRA:
// low-rank adaptation of large language models" (2021).
type LoRA struct {
	Rank  int
	Alpha float64 // 0 means Rank
	// Targets selects the matrices to adapt. A target is a suffix of a matrix's name, such as q_proj or
	// self_attn.q_proj; a star matches any text. Names of experts' matrices have a star for the expert's number, as in
	// model.layers.0.mlp.experts.*.up_proj.
	Targets []string
	// Dropout is the probability of dropping an input element of a linear layer's adapter; see Scope.Dropout. Experts'
	// adapters have no dropout.
	Dropout float64
}

// Suffixes of adapter parameters, following the name of the matrix.
const (
	LoRAA = "lora_A.weight"
	LoRAB = "lora_B.weight"
)

// Scale returns the factor applied to an adapter's product, Alpha/Rank.
func (l LoRA) Scale() float64 {
	if l.Alpha == 0 {
		return 1
	}
	return l.Alpha / float64(l.Rank)
}

// Check returns an error if the settings are invalid.
func (l LoRA) Check() error {
	switch {
	case l.Rank < 1:
		return fmt.Errorf("lora: rank %d, want at least 1", l.Rank)
	case !(l.Alpha >= 0) || math.IsInf(l.Alpha, 0):
		return fmt.Errorf("lora: alpha %g, want a number above 0, or 0 for the rank", l.Alpha)
	case !(l.Dropout >= 0 && l.Dropout < 1):
		return fmt.Errorf("lora: dropout %g, want 0 to below 1", l.Dropout)
	case len(l.Targets) == 0:
		return errors.New("lora: no targets, want ends of names of matrices, such as q_proj")
	}
	for _, t := range l.Targets {
		if _, err := path.Match(t, ""); err != nil || t == "" {
			return fmt.Errorf("lora: target %q, want the end of a name of matrices, in which stars stand for any text", t)
		}
	}
	return nil
}

// Matches reports whether target matches a suffix of a matrix's name.
func Matches(target, name string) bool {
	whole, _ := path.Match(target, name)
	end, _ := path.Match("*."+target, name)
	return whole || end
}

// Adapter describes a matrix with an adapter.
type Adapter struct {
	Name    string // of the matrix, without ".weight"
	Experts int    // 0 if the matrix is not a stack of experts
	In, Out int
}

// Adapters returns the adapted matrices in the order of declaration.
func (s *Scope) Adapters() []Adapter { return slices.Clone(s.adapters) }

// adapted reports whether a matrix of the scope has an adapter. name stands between the scope's name and .weight.
func (s *Scope) adapted(name string) bool {
	l := s.opts.LoRA
	if l == nil {
		return false
	}
	if err := l.Check(); err != nil {
		graph.Fail("%w", err)
	}
	name = strings.TrimSuffix(s.name+name, ".")
	return slices.ContainsFunc(l.Targets, func(t string) bool { return Matches(t, name) })
}

// adapter declares the adapter of a matrix [out,in], or of a stack of them, placed as given. prefix stands between
// the scope's name and .weight, and ends with a dot unless it is empty.
func (s *Scope) adapter(prefix string, place []string, shape ...int) (a, b *graph.Value) {
	n := len(shape)
	at := func(d int) string {
		if d < len(place) {
			return place[d]
		}
		return ""
	}
	out, in, r := shape[n-2], shape[n-1], s.opts.LoRA.Rank
	placeA, placeB := []string{"", at(n - 1)}, []string{at(n - 2), ""}
	shapeA, shapeB := []int{r, in}, []int{out, r}
	x := Adapter{Name: strings.TrimSuffix(s.name+prefix, "."), In: in, Out: out}
	if n == 3 {
		x.Experts = shape[0]
		placeA, placeB = append([]string{at(0)}, placeA...), append([]string{at(0)}, placeB...)
		shapeA, shapeB = append([]int{shape[0]}, shapeA...), append([]int{shape[0]}, shapeB...)
	}
	if _, old := s.index[s.name+prefix+LoRAA]; !old {
		s.adapters = append(s.adapters, x)
	}
	// PEFT draws uniformly between ±1/√in; this is the standard deviation of that distribution.
	a = s.declare(Param{Name: s.name + prefix + LoRAA, Type: graph.T(graph.F32, shapeA...), Place: placeA, Init: Init{Std: 1 / math.Sqrt(3*float64(in))}}, shapeA)
	b = s.declare(Param{Name: s.name + prefix + LoRAB, Type: graph.T(graph.F32, shapeB...), Place: placeB}, shapeB)
	return a, b
}

// adapt adds the adapter's product to y, the product of x[..,in] with the scope's matrix.
func (s *Scope) adapt(y, x *graph.Value, place []string) *graph.Value {
	if !s.adapted("") {
		return y
	}
	l := s.opts.LoRA
	a, b := s.adapter("", place, y.Dim(-1), x.Dim(-1))
	low := primitives.MatMulTransposedAs(graph.F32, s.Dropout(x, l.Dropout), a)
	more := primitives.MulScalar(primitives.MatMulTransposedAs(graph.F32, low, b), l.Scale())
	return primitives.ConvertElementType(primitives.Add(primitives.ConvertElementType(y, graph.F32), more), y.Type.DType)
}

// adaptRows adds the adapters' products to y[S,out], the products of rows x[S,in] with their experts' matrices.
func (s *Scope) adaptRows(y, x *graph.Value, r primitives.Prepared, w stack, experts int) *graph.Value {
	if !s.adapted(w.name) {
		return y
	}
	a, b := s.adapter(w.name+".", w.place, experts, w.out, x.Dim(1))
	d := x.Type.DType
	low := primitives.GroupedMatMulTransposed(r, x, primitives.ConvertElementType(a, d))
	more := primitives.GroupedMatMulTransposed(r, low, primitives.ConvertElementType(b, d))
	return primitives.Add(y, primitives.MulScalar(more, s.opts.LoRA.Scale()))
}
