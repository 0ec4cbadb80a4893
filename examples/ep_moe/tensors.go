package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// tensors are the job's inputs by name; floats are f32.
type tensors map[string]array.Array

// make returns the tensors of the original: token t of a rank in data-parallel group d chooses
// experts (d·E/ep + t·K + k + layer) mod E, all with weight 1/K. The ranks of a group hold the same
// tokens, perRank tokens each.
func (m model) make(mesh sharding.Mesh, perRank int) tensors {
	in := tensors{}
	tokens := array.New(graph.T(graph.F32, m.tokens, m.hidden))
	weights := array.New(graph.T(graph.F32, m.tokens, m.topK))
	weights.Fill(1 / float64(m.topK))
	var outer, all []string
	for _, a := range mesh.Axes {
		all = append(all, a.Name)
		if a.Name != "ep" {
			outer = append(outer, a.Name)
		}
	}
	x := array.Data[float32](tokens)
	local := m.experts / max(mesh.Size("ep"), 1)
	first := make([]int, mesh.Ranks()) // the first choice of each rank
	for r := range mesh.Ranks() {
		group, at := mesh.Index(r, outer), mesh.Index(r, all)
		rng := rand.New(rand.NewPCG(42, uint64(group)))
		for i := range perRank * m.hidden {
			x[at*perRank*m.hidden+i] = float32(0.5 * rng.NormFloat64())
		}
		first[at] = group * local
	}
	in["tokens"], in["topk_w"] = tokens, weights
	rng := rand.New(rand.NewPCG(42, math.MaxUint64))
	for l := range m.layers {
		idx := array.New(graph.T(graph.I32, m.tokens, m.topK))
		for i := range array.Data[int32](idx) {
			rank, pair := i/m.topK/max(perRank, 1), i%(max(perRank, 1)*m.topK)
			array.Data[int32](idx)[i] = int32((first[rank] + pair + l) % m.experts)
		}
		kernels := array.New(graph.T(graph.F32, m.experts, m.hidden, m.out))
		for i := range array.Data[float32](kernels) {
			array.Data[float32](kernels)[i] = float32(rng.NormFloat64() / math.Sqrt(float64(m.hidden)))
		}
		in[fmt.Sprintf("topk_idx_%d", l)], in[fmt.Sprintf("kernels_%d", l)] = idx, kernels
	}
	return in
}

// hash identifies the tensors by their names, types and elements.
func (in tensors) hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		fmt.Fprintf(h, "%s %s ", name, in[name].Type)
		h.Write(in[name].Bytes())
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// read returns the tensors in dir and the size of the job, derived from their shapes.
func read(dir string, d graph.DType) (model, tensors, error) {
	in := tensors{}
	load := func(name string, d graph.DType, rank int) error {
		path := filepath.Join(dir, name+".npy")
		a, err := array.ReadFile(path)
		if err != nil {
			return err
		}
		if a.Type.DType != d || a.Type.Rank() != rank {
			return fmt.Errorf("%s: %s, want %s with %d dimensions", path, a.Type, d, rank)
		}
		in[name] = a
		return nil
	}
	if err := load("tokens", graph.F32, 2); err != nil {
		return model{}, nil, err
	}
	if err := load("topk_w", graph.F32, 2); err != nil {
		return model{}, nil, err
	}
	m := model{tokens: in["tokens"].Type.Shape[0], hidden: in["tokens"].Type.Shape[1], topK: in["topk_w"].Type.Shape[1], dtype: d}
	for ; ; m.layers++ {
		idx, kernels := fmt.Sprintf("topk_idx_%d", m.layers), fmt.Sprintf("kernels_%d", m.layers)
		if _, err := os.Stat(filepath.Join(dir, idx+".npy")); os.IsNotExist(err) && m.layers > 0 {
			return m, in, nil
		}
		if err := load(idx, graph.I32, 2); err != nil {
			return m, nil, err
		}
		if err := load(kernels, graph.F32, 3); err != nil {
			return m, nil, err
		}
		s := in[kernels].Type.Shape
		if m.layers == 0 {
			m.experts, m.out = s[0], s[2]
		}
		if s[0] != m.experts || s[1] != m.hidden || s[2] != m.out || m.layers > 0 && m.hidden != m.out {
			return m, nil, fmt.Errorf("%s: kernels_%d is %s, want f32[%d,%d,%d], square if there are several layers", dir, m.layers, in[kernels].Type, m.experts, m.hidden, m.out)
		}
	}
}

// as returns the tensors in the job's element type; the router's weights stay f32.
func (in tensors) as(d graph.DType) tensors {
	out := tensors{}
	for name, a := range in {
		if a.Type.DType == graph.F32 && name != "topk_w" {
			a = a.As(d)
		}
		out[name] = a
	}
	return out
}

// write writes arrays to dir as .npy files, storing bf16 as f32, which is exact.
func write(dir string, arrays map[string]array.Array) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, a := range arrays {
		if a.Type.DType == graph.BF16 {
			a = a.As(graph.F32)
		}
		if err := array.WriteFile(filepath.Join(dir, name+".npy"), a); err != nil {
			return err
		}
	}
	return nil
}
