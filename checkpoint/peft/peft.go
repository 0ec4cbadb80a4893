package peft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
)

// Adapter is an adapter of a model, as stored in a folder.
type Adapter struct {
	// LoRA describes the adapters. Open sets its Targets to the full names of the matrices, and Rank to the largest
	// rank of a matrix. Gate and up of a parameter written by Write have half of its rank each.
	LoRA   nn.LoRA
	Base   string // the model's name in the configuration
	Layout Layout // of the model's family

	path   string // of the tensors
	close  func() error
	config config
	found  map[string]pair          // by matrix name, with the number of an expert, or a star if one tensor holds all experts
	whole  map[string]tensor.Tensor // replaced parameters of the model
	tables map[string]pair          // adapters of embedding tables: A [R,vocab] and B [width,R]
	added  map[string]pair          // adapters of matrices [out,in], to be merged into them
	rows   map[string]tensor.Tensor // new rows of embedding tables
	mlx    bool
}

// Layout describes how PEFT stores adapters of a family's matrices, in the names of transformers 5.
type Layout struct {
	Experts bool // layers have experts, which PEFT adapts as parameters
	// Block is the module of the experts in the model's files if transformers 5 has another name for it, which is mlp;
	// Matrices are then the names of the gate, down and up projections there. "" means that the names are the same.
	Block    string
	Matrices [3]string
	// Interleaved is set if the rows of gate and up are interleaved in their fused parameter.
	Interleaved bool
}

// pair is the adapter of a matrix.
type pair struct {
	a, b      tensor.Tensor
	rank      int // of the tensors
	scale     float64
	half      half
	parameter bool // the tensors belong to a fused parameter of experts, and the matrix is a half of it
	apart     bool // the matrix uses only its own share of the rank, as fuse writes it
}

// share returns the first rank that the matrix uses, and the number of them.
func (p pair) share() (first, count int) {
	if !p.apart {
		return 0, p.rank
	}
	count = p.rank / p.half.count
	return p.half.first * count, count
}

// Open opens the adapter in a folder, for a model of a family with the given layout. The caller must call Close. It is an error
// if the folder contains anything unknown that affects results.
func Open(folder string, l Layout) (*Adapter, error) {
	a := &Adapter{Layout: l, found: map[string]pair{}, whole: map[string]tensor.Tensor{}, tables: map[string]pair{}, added: map[string]pair{}, rows: map[string]tensor.Tensor{}}
	if err := a.open(folder); err != nil {
		return nil, errors.Join(fmt.Errorf("peft: %w", err), a.Close())
	}
	return a, nil
}

// Close closes the files.
func (a *Adapter) Close() error {
	if a.close == nil {
		return nil
	}
	return a.close()
}

func (a *Adapter) open(folder string) (err error) {
	if a.mlx, err = a.readConfig(folder); err != nil {
		return err
	}
	tensors, err := a.tensors(folder)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		if t.Type.DType != graph.F32 && t.Type.DType != graph.BF16 && t.Type.DType != graph.F16 {
			err = fmt.Errorf("tensor %s of %s, want floats", quoted.Name(t.Name), t.Stored)
		} else {
			err = a.take(t)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.path, err)
		}
	}
	if len(tensors) == 0 {
		return fmt.Errorf("%s: there are no tensors", a.path)
	}
	if a.config.Tie {
		for _, t := range tensors {
			if strings.Contains(t.Name, "embed_tokens") || strings.Contains(t.Name, "lm_head") {
				return fmt.Errorf("%s: tensor %s, and %s has ensure_weight_tying, want embedding and head that are saved apart", a.path, quoted.Name(t.Name), ConfigName)
			}
		}
	}
	if err := a.matrices(); err != nil {
		return fmt.Errorf("%s: %w", a.path, err)
	}
	return nil
}

// take classifies a tensor.
func (a *Adapter) take(t tensor.Tensor) error {
	name := t.Name
	if a.mlx {
		module, first := strings.CutSuffix(name, ".lora_a")
		module, second := strings.CutSuffix(module, ".lora_b")
		if !first && !second {
			return fmt.Errorf("tensor %s of %s, want lora_a or lora_b of a matrix", quoted.Name(t.Name), t.Stored)
		}
		return a.put(a.found, plainMLX(module), first, t, "", half{}, false)
	}
	name, ok := strings.CutPrefix(name, peftPrefix)
	if !ok {
		return fmt.Errorf("tensor %s, want a name that begins with %s", quoted.Name(t.Name), peftPrefix)
	}
	for i, end := range []string{"." + nn.LoRAA, "." + nn.LoRAB} {
		module, ok := strings.CutSuffix(name, end)
		if !ok {
			continue
		}
		names, parameter := a.config.fused(module)
		if parameter == "" && (strings.HasSuffix(module, inner) || strings.HasSuffix(module, ".experts")) {
			return fmt.Errorf("tensor %s is an adapter of a parameter, want target_parameters to name %s or %s of the experts, not %s", quoted.Name(t.Name), gateUp, down, quoted.List(a.config.Parameters))
		}
		for k, matrix := range names {
			if err := a.put(a.found, matrix, i == 0, t, parameter, half{k, len(names)}, true); err != nil {
				return err
			}
		}
		if parameter != "" {
			return nil
		}
		return a.put(a.found, module, i == 0, t, module, half{}, false)
	}
	for i, end := range []string{".lora_embedding_A", ".lora_embedding_B"} {
		if module, ok := strings.CutSuffix(name, end); ok {
			return a.put(a.tables, module, i == 0, t, module, half{}, false)
		}
	}
	if module, ok := strings.CutSuffix(name, ".token_adapter.trainable_tokens_delta"); ok {
		if a.config.tokens(module) == nil {
			return fmt.Errorf("tensor %s has new rows of a table, want trainable_token_indices to name the tokens of %s", quoted.Name(t.Name), module)
		}
		a.rows[a.own(module)+".weight"] = t
		return nil
	}
	name = strings.Replace(name, inner+".", ".", 1) // a table that also has an adapter
	if module, _, _ := cutLast(name); strings.Contains(name, ".lora_") || strings.Contains(name, "lora_magnitude") || !a.saves(module) {
		return fmt.Errorf("tensor %s of %s, want an adapter's %s or %s, or a parameter of modules_to_save", quoted.Name(t.Name), t.Stored, nn.LoRAA, nn.LoRAB)
	}
	if strings.Contains(name, ".experts.") {
		return fmt.Errorf("tensor %s of %s: modules_to_save %s has experts saved as a whole, which gomoe does not open; merge the adapter with PEFT's merge_and_unload and give the model", quoted.Name(t.Name), t.Stored, quoted.List(a.config.Save))
	}
	a.whole[a.own(name)] = t
	return nil
}

// saves reports whether a module or one enclosing it is saved as a whole: whether its name ends with an entry of
// modules_to_save, as every norm's ends with norm. PEFT saves embedding tables without listing them.
func (a *Adapter) saves(module string) bool {
	for _, m := range append([]string{"embed_tokens", "lm_head"}, a.config.Save...) {
		for in, ok := module, true; ok; in, _, ok = cutLast(in) {
			if strings.HasSuffix(in, m) {
				return true
			}
		}
	}
	return false
}

// own returns the name in the model's files of a module or a parameter of transformers 5.
func (a *Adapter) own(name string) string {
	if a.Layout.Block == "" {
		return name
	}
	name = strings.Replace(name, ".mlp.", "."+a.Layout.Block+".", 1)
	before, matrix, ok := cutLast(name)
	if i := slices.Index([]string{"gate_proj", "down_proj", "up_proj"}, matrix); ok && i >= 0 && strings.HasSuffix(before, ".*") {
		return before + "." + a.Layout.Matrices[i]
	}
	return name
}

func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// put records one of the two tensors of a matrix's adapter. configured is the name for looking up rank and scale in
// the configuration.
func (a *Adapter) put(to map[string]pair, matrix string, first bool, t tensor.Tensor, configured string, h half, parameter bool) (err error) {
	matrix = a.own(matrix)
	p := to[matrix]
	if p.rank, p.scale, err = a.config.scaled(configured); err != nil {
		return err
	}
	at := &p.b
	if first {
		at = &p.a
	}
	if at.Name != "" {
		return fmt.Errorf("tensor %s is there twice", quoted.Name(t.Name))
	}
	*at, p.half, p.parameter = t, h, parameter
	to[matrix] = p
	return nil
}

// matrices sets the targets and the largest rank.
func (a *Adapter) matrices() error {
	number := regexp.MustCompile(`\.experts\.\d+\.`)
	if err := a.separate(); err != nil {
		return err
	}
	rank := 0
	for name, p := range a.found {
		_, own := p.share()
		rank = max(rank, own)
		if name = number.ReplaceAllString(name, ".experts.*."); !slices.Contains(a.LoRA.Targets, name) {
			a.LoRA.Targets = append(a.LoRA.Targets, name)
		}
	}
	if rank > 0 && rank != a.LoRA.Rank {
		a.LoRA.Rank, a.LoRA.Alpha = rank, a.LoRA.Scale()*float64(rank)
	}
	slices.Sort(a.LoRA.Targets)
	return nil
}

// separate separates gate and up in the adapters of fused parameters. A half without an adapter, of which lora_B has
// only zeros, is dropped if the other half has one. Halves with adapters that share no column of lora_B get their
// own ranks: the ranks that fuse has added up would otherwise be the rank of all matrices.
func (a *Adapter) separate() error {
	gates := map[string]string{} // by the name of the tensor
	for name, p := range a.found {
		if p.parameter && p.half == (half{0, 2}) {
			gates[p.b.Name] = name
		}
	}
	for up, p := range a.found {
		gate, ok := gates[p.b.Name]
		if !ok || p.half.first != 1 || p.b.Name == "" || p.b.Type.Rank() != 2 {
			continue
		}
		x, err := p.b.Array()
		if err != nil {
			return err
		}
		values := array.Data[float32](x.As(graph.F32))
		out, row := x.Type.Shape[0], x.Type.Shape[1]
		var uses [2][2]bool // whether gate and up use the first and the second half of the ranks
		for i, v := range values {
			k := i / row / max(1, out/2)
			if a.Layout.Interleaved {
				k = i / row % 2
			}
			if second := i%row >= row/2; v != 0 && second {
				uses[min(k, 1)][1] = true
			} else if v != 0 {
				uses[min(k, 1)][0] = true
			}
		}
		switch none := [2]bool{}; {
		case uses[0] == none && uses[1] != none:
			delete(a.found, gate)
		case uses[0] != none && uses[1] == none:
			delete(a.found, up)
		case uses == [2][2]bool{{true, false}, {false, true}} && p.rank%2 == 0:
			q := a.found[gate]
			p.apart, q.apart = true, true
			a.found[up], a.found[gate] = p, q
		}
	}
	return nil
}

// tensors opens the tensors in a folder: the file of an adapter, or a checkpoint of a run training one.
func (a *Adapter) tensors(folder string) ([]tensor.Tensor, error) {
	name := FileName
	if a.mlx {
		name = MLXName
	}
	a.path = filepath.Join(folder, name)
	if _, err := os.Lstat(a.path); errors.Is(err, fs.ErrNotExist) {
		const pickle = "adapter_model.bin"
		if set, wrong := parts.Open(folder); wrong == nil {
			a.path, a.close = folder, set.Close
			return set.Tensors()
		} else if !errors.Is(wrong, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", folder, wrong)
		} else if _, err := os.Lstat(filepath.Join(folder, pickle)); err == nil {
			return nil, fmt.Errorf("%s: %s is a pickle file of PyTorch, want %s; load the adapter with PEFT and save it with save_pretrained(..., safe_serialization=True)", folder, pickle, name)
		}
	}
	f, err := safetensors.Open(a.path)
	if err != nil {
		return nil, err
	}
	a.close = f.Close
	return f.Tensors, nil
}

const peftPrefix = "base_model.model."

// TensorName returns the name in files of an adapter's parameter.
func TensorName(param string) string { return peftPrefix + param }

// Arrays returns the parameters of a model's adapters by name, as f32, all with LoRA's rank: adapters of a smaller
// rank are padded with zeros. It is an error if a tensor is missing, has another shape, or belongs to no adapter.
func (a *Adapter) Arrays(adapters []nn.Adapter) (map[string]array.Array, error) {
	all, used := map[string]array.Array{}, map[string]bool{}
	for _, m := range adapters {
		x, y, err := a.arrays(m, used)
		if err != nil {
			return nil, fmt.Errorf("peft: %s: %w", a.path, err)
		}
		all[m.Name+"."+nn.LoRAA], all[m.Name+"."+nn.LoRAB] = x, y
	}
	if len(used) < len(a.found) {
		return nil, fmt.Errorf("peft: %s: %d of %d adapters belong to no matrix of the model", a.path, len(a.found)-len(used), len(a.found))
	}
	return all, nil
}

// shapeOf returns the shape of lora_A or lora_B of an adapter, without the dimension of experts.
func shapeOf(m nn.Adapter, part string, rank int) []int {
	if part == nn.LoRAA {
		return []int{rank, m.In}
	}
	return []int{m.Out, rank}
}

// arrays returns the factors of a matrix's adapter, and records the names used.
func (a *Adapter) arrays(m nn.Adapter, used map[string]bool) (x, y array.Array, err error) {
	if m.Experts == 0 {
		used[m.Name] = true
		return a.pairOf(m.Name, m)
	}
	if _, ok := a.found[m.Name]; ok {
		used[m.Name] = true
		return a.pairOf(m.Name, m)
	}
	rank := a.LoRA.Rank
	x, y = array.New(graph.T(graph.F32, m.Experts, rank, m.In)), array.New(graph.T(graph.F32, m.Experts, m.Out, rank))
	for e := range m.Experts {
		one := strings.Replace(m.Name, "*", strconv.Itoa(e), 1)
		if _, ok := a.found[one]; !ok { // PEFT may adapt only some experts
			continue
		}
		used[one] = true
		p, q, err := a.pairOf(one, nn.Adapter{Name: one, In: m.In, Out: m.Out})
		if err != nil {
			return x, y, err
		}
		copy(x.Rows(e, e+1).Bytes(), p.Bytes())
		copy(y.Rows(e, e+1).Bytes(), q.Bytes())
	}
	return x, y, nil
}

// pairOf returns the factors of a matrix, or of all experts' if m has experts, with LoRA's rank and scale.
func (a *Adapter) pairOf(name string, m nn.Adapter) (x, y array.Array, err error) {
	p, ok := a.found[name]
	if !ok || p.a.Name == "" || p.b.Name == "" {
		return x, y, fmt.Errorf("there is no tensor for %s", name+"."+map[bool]string{true: nn.LoRAB, false: nn.LoRAA}[ok && p.a.Name != ""])
	}
	stack, shapeA, shapeB := []int{}, shapeOf(m, nn.LoRAA, p.rank), shapeOf(m, nn.LoRAB, p.rank)
	if m.Experts > 0 {
		stack = []int{m.Experts}
	}
	get := func(t tensor.Tensor, shapes ...[]int) (array.Array, error) {
		if !slices.ContainsFunc(shapes, func(s []int) bool { return slices.Equal(s, t.Type.Shape) }) {
			return array.Array{}, fmt.Errorf("tensor %s has shape %v, want %v", quoted.Name(t.Name), t.Type.Shape, shapes[0])
		}
		x, err := t.Array()
		return x.As(graph.F32), err
	}
	both := func(first, second [][]int) error {
		if x, err = get(p.a, first...); err == nil {
			y, err = get(p.b, second...)
		}
		return err
	}
	wholeA, wholeB := slices.Concat(stack, shapeA), slices.Concat(stack, shapeB)
	switch {
	case p.parameter:
		if err := both([][]int{{m.Experts * p.rank, m.In}}, [][]int{{m.Out * p.half.count, p.rank * m.Experts}}); err != nil {
			return x, y, err
		}
		x, y = unfused(x, y, p, m, a.Layout.Interleaved)
		_, p.rank = p.share()
	case a.mlx && m.Experts == 0: // mlx-lm stores them transposed
		if err := both([][]int{{m.In, p.rank}}, [][]int{{p.rank, m.Out}}); err != nil {
			return x, y, err
		}
		x, y = x.Transposed(), y.Transposed()
	case a.mlx: // old versions store them as one matrix
		if err := both([][]int{wholeA, {m.Experts * p.rank, m.In}}, [][]int{wholeB, {m.Experts * m.Out, p.rank}}); err != nil {
			return x, y, err
		}
		x, y = x.Reshape(wholeA...), y.Reshape(wholeB...)
	default:
		if err := both([][]int{wholeA}, [][]int{wholeB}); err != nil {
			return x, y, err
		}
	}
	x, y = a.widened(x, y, p, m)
	return x, y, nil
}

// widened pads factors of rank p.rank to LoRA's rank, and scales lora_B so that LoRA's scale gives the pair's.
func (a *Adapter) widened(x, y array.Array, p pair, m nn.Adapter) (array.Array, array.Array) {
	rank, times := a.LoRA.Rank, p.scale/a.LoRA.Scale()
	if rank == p.rank && times == 1 {
		return x, y
	}
	stack := []int{}
	if m.Experts > 0 {
		stack = []int{m.Experts}
	}
	wide := array.New(graph.T(graph.F32, append(slices.Clone(stack), rank, m.In)...))
	tall := array.New(graph.T(graph.F32, append(slices.Clone(stack), m.Out, rank)...))
	from, to := array.Data[float32](x), array.Data[float32](wide)
	for e := range max(1, m.Experts) {
		copy(to[e*rank*m.In:], from[e*p.rank*m.In:][:p.rank*m.In])
	}
	from, to = array.Data[float32](y), array.Data[float32](tall)
	for i := range max(1, m.Experts) * m.Out {
		for r := range p.rank {
			to[i*rank+r] = float32(float64(from[i*p.rank+r]) * times)
		}
	}
	return wide, tall
}
