package models

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
)

// fused locates an experts' parameter within a tensor of all experts in another layout: gate and up share one
// tensor, and matrices may be transposed or in blocks. The layout is determined by tensor names and the
// architecture, never by shapes. fused returns nil if there is no such tensor.
//
// For a parameter [E,out,in], where gate and up have I rows each and rows have H numbers, the tensors are
//
//	fused       gate_up_proj [E,2I,H], rows of gate followed by those of up;   down_proj [E,H,I]
//	transposed  gate_up_proj [E,H,2I], columns of gate and up interleaved;     down_proj [E,I,H]
//	blocks      gate_up_proj_blocks u8 [E,2I,H/32,16], rows of gate and up interleaved, and gate_up_proj_scales u8
//	            [E,2I,H/32];   down_proj_blocks [E,H,I/32,16] and down_proj_scales
//
// gpt-oss uses transposed and blocks. Biases are [E,2I], interleaved as well, and [E,H].
func fused(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	name, params, bias := together(p.Name)
	if name == "" {
		return nil, nil
	}
	v := rows{first: slices.Index(params, p.Name), count: len(params), step: 1}
	layout := checkpoint.NamesOf(c.Config.Architecture).Role(name).Layout
	if _, err := c.Tensor(name); err != nil {
		if name += "_blocks"; bias {
			return nil, nil
		}
		if _, err := c.Tensor(name); err != nil {
			return nil, nil
		}
		layout = checkpoint.Blocks
	}
	experts, out := p.Type.Shape[0], p.Type.Shape[1]
	if layout == checkpoint.Fused {
		v.first *= out
	} else {
		v.step = v.count
	}
	t, err := c.Tensor(name)
	if err != nil {
		return nil, err
	}
	shape := append([]int{experts, v.count * out}, p.Type.Shape[2:]...)
	switch {
	case layout == checkpoint.Blocks:
		return v.blocks(c, t, p.Type.Shape, shape)
	case layout == checkpoint.Transposed && !bias:
		shape[1], shape[2] = shape[2], shape[1]
		v.transposed = true
	}
	if err := suits(t, p, shape); err != nil {
		return nil, err
	}
	w := &Weight{Type: graph.Type{DType: t.Type.DType, Shape: p.Type.Shape}, tensors: []tensor.Tensor{t}, fill: v.numbers(t, p.Type.Shape)}
	if v.step == 1 && !v.transposed {
		row := len(t.Mem) / (experts * v.count * out)
		w.slab = func(e int) []byte { return sound(t, (e*v.count*out+v.first)*row, (e*v.count*out+v.first+out)*row) }
	}
	return w, nil
}

// together returns the name of the tensor holding a parameter of all experts, "" if there is none for its kind, and
// the parameters sharing this tensor: gate and up are stored together.
func together(param string) (name string, params []string, bias bool) {
	before, part, _ := strings.Cut(param, "experts.*.")
	part, kind, _ := strings.Cut(part, ".")
	if params = []string{param}; part == "gate_proj" || part == "up_proj" {
		part, params = "gate_up_proj", []string{before + "experts.*.gate_proj." + kind, before + "experts.*.up_proj." + kind}
	}
	switch name = before + "experts." + part; kind {
	case "weight":
		return name, params, false
	case "bias":
		return name + "_bias", params, true
	}
	return "", nil, false
}

// Transposed reports whether a family's folders store experts' matrices in the layout made by Transpose.
func Transposed(family string) bool {
	return checkpoint.NamesOf(family).Role("model.layers.0.mlp.experts.gate_up_proj").Layout == checkpoint.Transposed
}

// Transpose returns the tensor, with element type t, that such a folder has for an experts' parameter [E,out,in],
// or [E,out] for a bias; see fused. Gate and up share the tensor returned for gate; ok is false for up. While the
// tensor is being written, read is called for each of its parameters, expert by expert, and must return the
// expert's [out,in] or [out] in type t.
func Transpose(p nn.Param, t graph.DType, read func(param string, expert int) (array.Array, error)) (_ tensor.Source, ok bool) {
	name, params, bias := together(p.Name)
	if name == "" || params[0] != p.Name {
		return tensor.Source{}, false
	}
	shape := slices.Clone(p.Type.Shape)
	shape[1] *= len(params)
	if !bias {
		shape[1], shape[2] = shape[2], shape[1]
	}
	return tensor.Source{Name: name, Type: graph.T(t, shape...), Write: func(w io.Writer) error {
		for e := range shape[0] {
			var to []byte
			for i, param := range params {
				a, err := read(param, e)
				if err != nil {
					return err
				}
				from, size := a.Transposed().Bytes(), t.Size()
				if to == nil {
					to = make([]byte, len(from)*len(params))
				}
				for x := 0; x < len(from); x += size {
					copy(to[x*len(params)+i*size:], from[x:x+size])
				}
			}
			if _, err := w.Write(to); err != nil {
				return err
			}
		}
		return nil
	}}, true
}

// rows selects the rows of a parameter within a matrix: rows first + step·i, out of count times as many.
type rows struct {
	first, step, count int
	transposed         bool
}

// numbers returns a function that copies a part of a parameter with the given shape, [E,out,in] or [E,out], from a
// tensor of numbers.
func (v rows) numbers(t tensor.Tensor, shape []int) func(runtime.Part) error {
	in := 1
	if len(shape) == 3 {
		in = shape[2]
	}
	all, size := v.count*shape[1], int(t.Type.DType.Size())
	return func(p runtime.Part) error {
		start, box, to := append(slices.Clone(p.Start), 0), append(slices.Clone(p.Type.Shape), 1), p.Bytes()
		for e := range box[0] {
			lo, hi := (start[0]+e)*all*in*size, (start[0]+e+1)*all*in*size
			if err := t.Sound(lo, hi); err != nil {
				return err
			}
			matrix := t.Mem[lo:hi]
			for o := range box[1] {
				row := v.first + v.step*(start[1]+o)
				if !v.transposed {
					to = to[copy(to, matrix[(row*in+start[2])*size:][:box[2]*size]):]
					continue
				}
				for i := range box[2] {
					to = to[copy(to, matrix[((start[2]+i)*all+row)*size:][:size]):]
				}
			}
		}
		return nil
	}
}

// blocks returns a parameter in MXFP4 blocks. A byte of the file holds two adjacent elements of a block, whereas a
// byte of graph.MXFP4 holds elements i and i+16, following the block's scale.
func (v rows) blocks(c *checkpoint.Checkpoint, t tensor.Tensor, shape, whole []int) (*Weight, error) {
	const block, half = 32, 16
	scales, err := c.Tensor(strings.TrimSuffix(t.Name, "_blocks") + "_scales")
	if err != nil {
		return nil, err
	}
	if whole[2]%block != 0 {
		return nil, fmt.Errorf("%s: tensor %s has blocks of %d numbers, and rows have %d; want a multiple", t.File, quoted.Name(t.Name), block, whole[2])
	}
	blocks := whole[2] / block
	for _, x := range []struct {
		tensor.Tensor
		want []int
	}{{t, []int{whole[0], whole[1], blocks, half}}, {scales, []int{whole[0], whole[1], blocks}}} {
		if err := fits(x.Tensor, x.want); err != nil {
			return nil, err
		}
		if x.Type.DType != graph.U8 {
			return nil, fmt.Errorf("%s: tensor %s has elements %s, want U8", x.File, quoted.Name(x.Name), x.Stored)
		}
	}
	fill := func(p runtime.Part) error {
		to := p.Bytes()
		for e := range p.Type.Shape[0] {
			for o := range p.Type.Shape[1] {
				row := (p.Start[0]+e)*whole[1] + v.first + v.step*(p.Start[1]+o)
				at := row*blocks + p.Start[2]/block
				to = mxRow(to, scales.Mem[at:], t.Mem[at*half:], p.Type.Shape[2]/block)
			}
		}
		return nil
	}
	return &Weight{Type: graph.Type{DType: graph.MXFP4, Shape: shape}, tensors: []tensor.Tensor{t, scales}, fill: fill}, nil
}

// mxRow converts n blocks from scales and bytes of adjacent elements into to, and returns the rest of to.
func mxRow(to, scales, from []byte, n int) []byte {
	const half = 16
	for b := range n {
		to[0] = scales[b]
		mx(to[1:1+half], from[b*half:][:half])
		to = to[1+half:]
	}
	return to
}

// mx repacks bytes of adjacent elements: byte i of to gets element i of 32 in its low half and element i+16 in its
// high half.
func mx(to, from []byte) {
	for i := range to {
		low, high := from[i/2], from[8+i/2]
		if i%2 == 1 {
			low, high = low>>4, high>>4
		}
		to[i] = low&15 | high<<4
	}
}
