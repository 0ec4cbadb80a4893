package models

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
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

// Weight is a model's parameter located in files: a single tensor, or one per expert.
type Weight struct {
	Type    graph.Type
	Affine  nn.Affine   // zero except for the packed words of MLX's affine quantisation
	Scales  graph.DType // for Affine and Numbers, the element type of the scales; BF16 for scales of 8-bit floats
	numbers *Weight     // the dequantised parameter
	tensors []tensor.Tensor
	fill    func(runtime.Part) error // converts tensors from another layout; nil copies
	slab    func(i int) []byte       // bytes at index i of dimension 0, or nil if they are not contiguous or are damaged
}

// headName is the name of the head's tensor in Hugging Face's files.
const headName = "lm_head.weight"

// Find locates a parameter in a checkpoint. It is an error if a tensor is missing or its shape differs from the
// parameter's.
func Find(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	w, err := find(c, p)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	if w.Type.DType.IsF8() && p.Copies == nil {
		w.numbers = f8Numbers(c, w)
	}
	return w, nil
}

func find(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	if before, after, ok := strings.Cut(p.Name, ".block_sparse_moe."); ok && c.Format == checkpoint.Safetensors {
		if c.Has(before + ".mlp.gate.weight") { // names of Mixtral's experts in transformers 5
			p.Name = before + ".mlp." + strings.NewReplacer("w1", "gate_proj", "w2", "down_proj", "w3", "up_proj").Replace(after)
		}
	}
	if p.Copies != nil {
		return copied(c, p)
	}
	whole := MLXName(p)
	if c.Format == checkpoint.GGUF {
		if whole = p.GGUF; whole == "" {
			return nil, fmt.Errorf("%s: parameter %s has no name in GGUF files", c.Path, p.Name)
		}
	} else if strings.Contains(p.Name, "*") {
		if _, err := c.Tensor(strings.Replace(p.Name, "*", "0", 1)); err == nil {
			return perExpert(c, p)
		}
		all := []string{whole, strings.Replace(p.Name, "*.", "", 1)} // the second is mlx-lm's for gpt-oss
		i := slices.IndexFunc(all, func(name string) bool { _, err := c.Tensor(name); return err == nil })
		if i < 0 {
			if w, err := fused(c, p); w != nil || err != nil {
				return w, err
			}
			return nil, fmt.Errorf("%s: there is neither tensor %s nor %s", c.Path, quoted.Name(strings.Replace(p.Name, "*", "0", 1)), quoted.Name(whole))
		}
		whole = all[i]
	}
	if tied, _, _ := c.Config.Bool("tie_word_embeddings"); tied && whole == "model.embed_tokens.weight" && !c.Has(whole) && c.Has(headName) {
		whole = headName // of two tensors with one memory, a file may have only this one
	}
	t, err := c.Tensor(whole)
	if err != nil {
		return nil, err
	}
	if q, err := c.Quantization(whole); err != nil {
		return nil, err
	} else if q != (checkpoint.Quantization{}) {
		return packed(c, p, t, q)
	}
	shape := p.Type.Shape
	if c.Format == checkpoint.GGUF { // omits leading dimensions of 1
		for len(shape) > t.Type.Rank() && shape[0] == 1 {
			shape = shape[1:]
		}
	}
	if err := suits(t, p, shape); err != nil {
		return nil, err
	}
	t.Type.Shape = p.Type.Shape
	return &Weight{Type: t.Type, tensors: []tensor.Tensor{t}, slab: slabsOf(t)}, nil
}

// slabsOf returns a function giving the bytes at index i of dimension 0 of a tensor.
func slabsOf(t tensor.Tensor) func(i int) []byte {
	if t.Type.Rank() == 0 || t.Type.Shape[0] == 0 {
		return nil
	}
	n := len(t.Mem) / t.Type.Shape[0]
	return func(i int) []byte { return sound(t, i*n, (i+1)*n) }
}

// sound returns bytes of a tensor, or nil if they are damaged: Fill then copies them and reports the error.
func sound(t tensor.Tensor, lo, hi int) []byte {
	if t.Sound(lo, hi) != nil {
		return nil
	}
	return t.Mem[lo:hi]
}

// copied locates a parameter of replicated experts, or the table of replicas.
func copied(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	if strings.HasSuffix(p.Name, nn.CopiesName) {
		return &Weight{Type: p.Type, fill: func(part runtime.Part) error {
			copy(array.Data[int32](part.Array), p.Copies[part.Start[0]:])
			return nil
		}}, nil
	}
	copies, one := p.Copies, p
	one.Copies, one.Type.Shape = nil, slices.Clone(p.Type.Shape)
	one.Type.Shape[0] = 1 + int(slices.Max(copies))
	w, err := find(c, one)
	if err != nil {
		return nil, err
	}
	held := *w
	held.Type.Shape, held.numbers = slices.Clone(w.Type.Shape), nil
	held.Type.Shape[0] = len(copies)
	if w.slab != nil {
		held.slab = func(i int) []byte { return w.slab(int(copies[i])) }
	}
	held.fill = func(part runtime.Part) error {
		for i := range part.Type.Shape[0] {
			expert := runtime.Part{Rank: part.Rank, Whole: w.Type, Start: slices.Clone(part.Start), Array: part.Rows(i, i+1)}
			expert.Start[0] = int(copies[part.Start[0]+i])
			if err := w.Fill(expert); err != nil {
				return err
			}
		}
		return nil
	}
	return &held, nil
}

// perExpert locates a parameter stored as one tensor per expert.
func perExpert(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	w := &Weight{}
	for e := range p.Type.Shape[0] {
		t, err := c.Tensor(strings.Replace(p.Name, "*", fmt.Sprint(e), 1))
		if err != nil {
			return nil, err
		}
		if err := suits(t, p, p.Type.Shape[1:]); err != nil {
			return nil, err
		}
		if e > 0 && t.Type.DType != w.tensors[0].Type.DType {
			return nil, fmt.Errorf("%s: tensor %s has elements %s, want %s as that of expert 0", t.File, quoted.Name(t.Name), t.Stored, w.tensors[0].Stored)
		}
		w.tensors = append(w.tensors, t)
	}
	w.Type = graph.Type{DType: w.tensors[0].Type.DType, Shape: p.Type.Shape}
	w.slab = func(e int) []byte { return sound(w.tensors[e], 0, len(w.tensors[e].Mem)) }
	return w, nil
}

// suits returns an error if a tensor's shape is not shape, or if its elements are integers or bits and the
// parameter's are not.
func suits(t tensor.Tensor, p nn.Param, shape []int) error {
	d := t.Type.DType
	if d == graph.NoDType || d == graph.U32 || d.IsFloat() || d.IsF8() || d.IsBlock() || p.Type.DType.IsInt() {
		return fits(t, shape)
	}
	return fmt.Errorf("%s: tensor %s has elements %s, want floats, 8-bit floats or blocks; convert the tensor", t.File, quoted.Name(t.Name), t.Stored)
}

// fits returns an error if a tensor's shape is not shape, or if gomoe cannot compute with its elements.
func fits(t tensor.Tensor, shape []int) error {
	if t.Type.DType == graph.U32 {
		return fmt.Errorf("%s: tensor %s has elements U32, as MLX quantises matrices, and no tensor of scales is beside it", t.File, quoted.Name(t.Name))
	}
	if !slices.Equal(t.Type.Shape, shape) {
		return fmt.Errorf("%s: tensor %s has shape %v, want %v", t.File, quoted.Name(t.Name), t.Type.Shape, shape)
	}
	_, err := t.Array()
	return err
}

// Fill copies a part of the parameter from the files; its type suits Session.PutParts.
func (w *Weight) Fill(p runtime.Part) error {
	if w.fill != nil {
		return w.fill(p)
	}
	if w.whole() {
		return runtime.ReadAt(w.tensors[0], 0)(p)
	}
	one := graph.Type{DType: w.Type.DType, Shape: w.Type.Shape[1:]}
	for i := range p.Type.Shape[0] {
		part := runtime.Part{Rank: p.Rank, Whole: one, Start: p.Start[1:], Array: p.Rows(i, i+1).Reshape(p.Type.Shape[1:]...)}
		if err := runtime.ReadAt(w.tensors[p.Start[0]+i], 0)(part); err != nil {
			return err
		}
	}
	return nil
}

// Loan returns the parameter's memory in the files c, for Session.Lend. Parts that are contiguous there, as a whole
// or per expert, are lent; other parts are copied. The files stay mapped while the loan is in use.
func (w *Weight) Loan(c *checkpoint.Checkpoint) runtime.Loan {
	return runtime.Loan{Mem: w.mem, Slabs: w.slabs, Fill: w.Fill, Back: c.Hold()}
}

// slabs returns a part's bytes in the files for each expert, or nil if they have another layout or are not
// contiguous.
func (w *Weight) slabs(p runtime.Part) [][]byte {
	if w.slab == nil || len(p.Start) < 2 {
		return nil
	}
	for d := 2; d < len(p.Start); d++ {
		if p.Type.Shape[d] != p.Whole.Shape[d] {
			return nil
		}
	}
	list := make([][]byte, p.Type.Shape[0])
	for i := range list {
		all := w.slab(p.Start[0] + i)
		if all == nil {
			return nil
		}
		to := func(row int) int { return row * len(all) / p.Whole.Shape[1] } // with two dimensions, a row is an element
		list[i] = all[to(p.Start[1]):to(p.Start[1]+p.Type.Shape[1])]
	}
	return list
}

// mem returns a part's bytes in the files, or nil if they have another layout or are not contiguous.
func (w *Weight) mem(p runtime.Part) []byte {
	if w.fill != nil {
		return nil
	}
	for d := 1; d < len(p.Start); d++ {
		if p.Type.Shape[d] != p.Whole.Shape[d] {
			return nil
		}
	}
	switch {
	case !w.whole():
		list := w.tensors[p.Start[0]:][:p.Type.Shape[0]]
		for _, t := range list {
			if t.Sound(0, len(t.Mem)) != nil {
				return nil
			}
		}
		return tensor.Together(list)
	case len(p.Start) == 0:
		return sound(w.tensors[0], 0, len(w.tensors[0].Mem))
	}
	row := len(w.tensors[0].Mem) / p.Whole.Shape[0]
	return sound(w.tensors[0], p.Start[0]*row, (p.Start[0]+p.Type.Shape[0])*row)
}

// whole reports whether a single tensor is the parameter.
func (w *Weight) whole() bool {
	return w.fill == nil && len(w.tensors) == 1 && w.tensors[0].Type.Rank() == w.Type.Rank()
}

// Array returns the whole parameter. If it is a single tensor, the array aliases the file's bytes.
func (w *Weight) Array() (array.Array, error) {
	if w.whole() {
		return w.tensors[0].Array()
	}
	a := array.New(w.Type)
	return a, w.Fill(runtime.Part{Whole: w.Type, Start: make([]int, w.Type.Rank()), Array: a})
}

// Stored returns a function for nn.Options.Stored that looks up a checkpoint.
func Stored(c *checkpoint.Checkpoint) func(nn.Param) (nn.Form, error) {
	return func(p nn.Param) (nn.Form, error) {
		w, err := Find(c, p)
		if err != nil {
			return nn.Form{}, err
		}
		return w.Form(), nil
	}
}

// Form returns the parameter's stored form.
func (w *Weight) Form() nn.Form { return nn.Form{DType: w.Type.DType, Affine: w.Affine} }

// Surplus returns an error if a checkpoint has tensors that are not parameters of the model and would be silently
// ignored. It permits tables of rotary frequencies, which follow from the configuration or were read with it; a
// head equal to the embedding table, if the model shares it; multi-token prediction layers; and tensors without
// elements, which transformers saves for parts of width 0.
func Surplus(c *checkpoint.Checkpoint, params []nn.Param) error {
	used := map[string]bool{}
	var errs []error
	for _, p := range params {
		w, err := Find(c, p)
		if err != nil {
			return err
		}
		for _, t := range w.tensors {
			used[t.Name] = true
		}
	}
	may := regexp.MustCompile(`rotary_emb\.inv_freq$|^` + regexp.QuoteMeta(RopeFactors) + `$`)
	n, further := 0, furtherLayers(c)
	for _, t := range c.Tensors {
		if used[t.Name] || further(t.Name) || may.MatchString(t.Name) || t.Type.Len() == 0 && len(t.Mem) == 0 || t.Name == headName && equals(c, t, "model.embed_tokens.weight") {
			continue
		}
		if n++; n > 3 {
			continue
		}
		err := fmt.Errorf("models: %s: tensor %s of %s%v is no part of this architecture as %s describes the model", t.File, quoted.Name(t.Name), t.Stored, t.Type.Shape, c.Config.Path)
		if t.Name == headName {
			err = fmt.Errorf("%w: tie_word_embeddings is true, and the tensor differs from the table; set it to false if the tensor is the head", err)
		}
		errs = append(errs, err)
	}
	if n > 3 {
		errs = append(errs, fmt.Errorf("models: and %d further tensors", n-3))
	}
	return errors.Join(errs...)
}

// nextLayers returns the setting for the number of multi-token prediction layers, which follow the last layer.
func (r *Reader) nextLayers() Keys {
	const gguf = ".nextn_predict_layers"
	return r.Either(Keys{"num_nextn_predict_layers", gguf}, Keys{"num_mtp_layers", gguf})
}

// furtherLayers returns a predicate for tensors of multi-token prediction layers.
func furtherLayers(c *checkpoint.Checkpoint) func(name string) bool {
	family, _, _ := familyOf(c.Config, nil)
	r, names := newReader(c, family), checkpoint.NamesOf(c.Config.Architecture)
	n, layers := r.SizeOr(r.nextLayers(), 0), r.SizeOr(Keys{"num_hidden_layers", ".block_count"}, 0)
	if c.Config.GGUF() {
		layers -= n
	}
	return func(name string) bool {
		l := names.Role(name).Layer
		return l >= layers && l < layers+n
	}
}

// Further returns the tensors of multi-token prediction layers, which no model here uses.
func Further(c *checkpoint.Checkpoint) (list []tensor.Tensor) {
	further := furtherLayers(c)
	for _, t := range c.Tensors {
		if further(t.Name) {
			list = append(list, t)
		}
	}
	return list
}

// equals reports whether a tensor has the same bytes as another one.
func equals(c *checkpoint.Checkpoint, t tensor.Tensor, other string) bool {
	o, err := c.Tensor(other)
	return err == nil && o.Stored == t.Stored && bytes.Equal(o.Mem, t.Mem)
}

// DType returns the default computation type of a model: the element type of its experts' weights, or of its dense
// layers if it has none. For weights of 8-bit floats it is the type of the embedding table, and for weights in
// blocks f32.
func DType(c *checkpoint.Checkpoint) graph.DType {
	names := checkpoint.NamesOf(c.Config.Architecture)
	for _, part := range []checkpoint.Part{checkpoint.Experts, checkpoint.Dense, checkpoint.Embedding} {
		for _, t := range c.Tensors {
			switch r := names.Role(t.Name); {
			case r.Part != part || r.Scales || t.Type.DType.IsF8():
			case t.Type.DType.IsFloat():
				return t.Type.DType
			default:
				return graph.F32
			}
		}
	}
	return graph.F32
}
