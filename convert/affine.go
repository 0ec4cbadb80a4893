package convert

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/quant"
)

// piece selects the tensor of a matrix to write: the whole matrix, or one of the three tensors of MLX's
// quantisation.
type piece int

const (
	complete piece = iota
	words
	scales
	biases
)

// affine reports whether to quantise a parameter in MLX's affine format: a matrix other than a router, with rows of
// whole groups.
func (j *conversion) affine(p nn.Param) bool {
	part := checkpoint.NamesOf(j.m.Family.Name).Role(strings.Replace(p.Name, "*", "0", 1)).Part
	return j.o.Affine != (nn.Affine{}) && p.Type.Rank() > 1 && strings.HasSuffix(p.Name, ".weight") && part != checkpoint.Router &&
		p.Type.Shape[p.Type.Rank()-1]%j.o.Affine.GroupSize == 0
}

// affine returns the three tensors of a quantised matrix. name is the name of the first.
func (m matrices) affine(name string) ([]tensor.Source, error) {
	var all []tensor.Source
	for i, end := range []string{"weight", "scales", "biases"} {
		one := m
		one.piece = words + piece(i)
		t := one.pieceOf(graph.Type{DType: m.want, Shape: m.p.Type.Shape})
		all = append(all, tensor.Source{Name: strings.TrimSuffix(name, "weight") + end, Type: t, Write: one.write})
	}
	return all, nil
}

// pieceOf returns the type of the selected piece of a matrix of type t.
func (m matrices) pieceOf(t graph.Type) graph.Type {
	q, last := m.j.o.Affine, t.Rank()-1
	if m.piece == complete {
		return t
	}
	n := t.Shape[last] / q.GroupSize
	if t.Shape = slices.Clone(t.Shape); m.piece == words {
		t.DType, n = graph.U32, t.Shape[last]*q.Bits/32
	}
	t.Shape[last] = n
	return t
}

// quantise quantises the numbers x and stores the selected piece in out.
func (m matrices) quantise(out, x array.Array) error {
	q, n := m.j.o.Affine, x.Type.Len()
	all := map[piece]array.Array{
		words:  array.New(graph.T(graph.U32, n*q.Bits/32)),
		scales: array.New(graph.T(graph.F32, n/q.GroupSize)),
		biases: array.New(graph.T(graph.F32, n/q.GroupSize)),
	}
	quant.QuantizeAffine(array.Data[uint32](all[words]), array.Data[float32](all[scales]), array.Data[float32](all[biases]), array.Data[float32](x), q.Bits, q.GroupSize)
	from := all[m.piece].Reshape(out.Type.Shape...)
	if m.piece == words {
		copy(out.Bytes(), from.Bytes())
		return nil
	}
	return array.Convert(out, from)
}
