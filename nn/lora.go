package nn

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// LoRA has a model learn by adapters: a matrix W [out,in] stays as it is, frozen and in the element type that it is given
// in, blocks too, and beside it there are two narrow ones that learn, lora_A [Rank,in] and lora_B [out,Rank]:
//
//	y = x·Wᵀ + Alpha/Rank · (dropout(x)·lora_Aᵀ)·lora_Bᵀ
//
// lora_B begins as zeros, so that the model begins as it was. A stack of experts [E,out,in] has [E,Rank,in] and
// [E,out,Rank], an adapter for each expert. Adapters are f32; those of linear layers are calculated with in f32, those of
// experts in the type of the rows. Source: Hu and others, "LoRA: low-rank adaptation of large language models" (2021).
type LoRA struct {
	Rank  int
	Alpha float64 // 0 means Rank
	// Targets are the matrices that have adapters. A target is the end of a matrix' name, such as q_proj or
	// self_attn.q_proj, in which stars stand for any text. The name of an expert has a star for its number, as in
	// model.layers.0.mlp.experts.*.up_proj.
	Targets []string
	// Dropout is the probability with which an adapter of a linear layer does not see an element of x; see Dropout.
	// Experts' adapters see all.
	Dropout float64
}

// The names of an adapter's parameters, behind that of the matrix.
const (
	LoRAA = "lora_A.weight"
	LoRAB = "lora_B.weight"
)

// Scale is what the product of an adapter is multiplied by.
func (l LoRA) Scale() float64 {
	if l.Alpha == 0 {
		return 1
	}
	return l.Alpha / float64(l.Rank)
}

// Check returns an error if there are no such adapters.
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

// Matches reports whether a target is the end of a matrix' name.
func Matches(target, name string) bool {
	whole, _ := path.Match(target, name)
	end, _ := path.Match("*."+target, name)
	return whole || end
}

// Adapter is a matrix with an adapter.
type Adapter struct {
	Name    string // of the matrix, without ".weight"
	Experts int    // 0 if it is no stack
	In, Out int
}

// Adapters returns the matrices that have adapters, in order.
func (s *Scope) Adapters() []Adapter { return slices.Clone(s.adapters) }

// adapted reports whether a matrix of the scope has an adapter. name is what is between the scope's name and .weight.
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

// adapter declares the adapter of a matrix [out,in] or of a stack of them, which is placed as given. prefix is what is
// between the scope's name and .weight, with a dot at the end if it is not empty.
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
	// PEFT's: uniform between ±1/√in, whose standard deviation this is.
	a = s.declare(Param{Name: s.name + prefix + LoRAA, Type: graph.T(graph.F32, shapeA...), Place: placeA, Init: Init{Std: 1 / math.Sqrt(3*float64(in))}}, shapeA)
	b = s.declare(Param{Name: s.name + prefix + LoRAB, Type: graph.T(graph.F32, shapeB...), Place: placeB}, shapeB)
	return a, b
}

// adapt adds to y, the product of x[..,in] with the scope's matrix, that with its adapter.
func (s *Scope) adapt(y, x *graph.Value, place []string) *graph.Value {
	if !s.adapted("") {
		return y
	}
	l := s.opts.LoRA
	a, b := s.adapter("", place, y.Dim(-1), x.Dim(-1))
	low := pr.MatMulTransposedAs(graph.F32, s.Dropout(x, l.Dropout), a)
	more := pr.MulScalar(pr.MatMulTransposedAs(graph.F32, low, b), l.Scale())
	return pr.ConvertElementType(pr.Add(pr.ConvertElementType(y, graph.F32), more), y.Type.DType)
}

// adaptRows adds to y[S,out], the product of rows x[S,in] with the matrices of their experts, that with their adapters.
func (s *Scope) adaptRows(y, x *graph.Value, r pr.Prepared, w stack, experts int) *graph.Value {
	if !s.adapted(w.name) {
		return y
	}
	a, b := s.adapter(w.name+".", w.place, experts, w.out, x.Dim(1))
	d := x.Type.DType
	low := pr.GroupedMatMulTransposed(r, x, pr.ConvertElementType(a, d))
	more := pr.GroupedMatMulTransposed(r, low, pr.ConvertElementType(b, d))
	return pr.Add(y, pr.MulScalar(more, s.opts.LoRA.Scale()))
}
