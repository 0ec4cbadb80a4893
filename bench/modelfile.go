package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/tokenizer"
)

// modelShape holds the sizes of a published model. Its file may have fewer layers.
type modelShape struct {
	Name, Architecture string // the architecture's name in GGUF files
	Hidden, Layers     int
	Heads, KVHeads     int
	HeadWidth          int
	Experts, TopK, FFN int
	Vocab, Context     int
	Theta, Epsilon     float32
	PerHead            bool // queries and keys are normalized per head
}

// olmoe returns the shape of OLMoE-1B-7B, which has 16 layers.
func olmoe(layers int) modelShape {
	return modelShape{"OLMoE-1B-7B", "olmoe", 2048, layers, 16, 16, 128, 64, 8, 1024, 50304, 4096, 1e4, 1e-5, false}
}

// qwen3 returns the shape of Qwen3-30B-A3B, which has 48 layers.
func qwen3(layers int) modelShape {
	return modelShape{"Qwen3-30B-A3B", "qwen3moe", 2048, layers, 32, 4, 128, 128, 8, 768, 151936, 4096, 1e6, 1e-6, true}
}

// tensors calls do with each tensor: its name, the standard deviation of its elements or 0 if they are all one, whether
// it is a matrix stored in blocks, and its shape.
func (m modelShape) tensors(do func(name string, std float64, blocks bool, shape ...int)) {
	d, q, kv := m.Hidden, m.Heads*m.HeadWidth, m.KVHeads*m.HeadWidth
	do("token_embd.weight", 1, true, m.Vocab, d)
	for l := range m.Layers {
		n := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", l, s) }
		do(n("attn_norm"), 0, false, d)
		do(n("attn_q"), fanIn(d), true, q, d)
		do(n("attn_k"), fanIn(d), true, kv, d)
		do(n("attn_v"), fanIn(d), true, kv, d)
		do(n("attn_output"), fanIn(q), true, d, q)
		nq, nk := q, kv // columns that are normalized together
		if m.PerHead {
			nq, nk = m.HeadWidth, m.HeadWidth
		}
		do(n("attn_q_norm"), 0, false, nq)
		do(n("attn_k_norm"), 0, false, nk)
		do(n("ffn_norm"), 0, false, d)
		do(n("ffn_gate_inp"), 4*fanIn(d), false, m.Experts, d)
		do(n("ffn_gate_exps"), fanIn(d), true, m.Experts, m.FFN, d)
		do(n("ffn_up_exps"), fanIn(d), true, m.Experts, m.FFN, d)
		do(n("ffn_down_exps"), fanIn(m.FFN), true, m.Experts, d, m.FFN)
	}
	do("output_norm.weight", 0, false, d)
	do("output.weight", fanIn(d), true, m.Vocab, d)
}

// reads returns the number of bytes of weights read by a step of this many tokens, each token choosing its experts
// independently: the tokens' embedding rows, each expert as often as some token has chosen it, and everything else
// once.
func (m modelShape) reads(f blockFormat, tokens int) float64 {
	idle := 1.0
	for range tokens {
		idle *= 1 - float64(m.TopK)/float64(m.Experts)
	}
	sum := 0.0
	m.tensors(func(name string, std float64, blocks bool, shape ...int) {
		n := 1.0
		for _, s := range shape {
			n *= float64(s)
		}
		switch {
		case strings.HasPrefix(name, "token_embd"):
			n *= float64(tokens) / float64(m.Vocab)
		case strings.HasSuffix(name, "_exps.weight"):
			n *= 1 - idle
		}
		if blocks {
			sum += n * float64(f.bytes) / float64(f.elements)
		} else {
			sum += 4 * n
		}
	})
	return sum
}

// products returns the number of multiply-adds with weights for a prompt of this many tokens. The head and, except for
// keys and values, the last layer are computed for the last token only.
func (m modelShape) products(tokens int) float64 {
	sum := 0.0
	last := fmt.Sprintf("blk.%d.", m.Layers-1)
	m.tensors(func(name string, std float64, blocks bool, shape ...int) {
		n, tokens := 1.0, tokens
		if part, ok := strings.CutPrefix(name, last); ok && part != "attn_k.weight" && part != "attn_v.weight" {
			tokens = 1
		}
		for _, s := range shape {
			n *= float64(s)
		}
		switch {
		case len(shape) == 1 || strings.HasPrefix(name, "token_embd"):
		case name == "output.weight":
			sum += n
		case strings.HasSuffix(name, "_exps.weight"):
			sum += n * float64(tokens) * float64(m.TopK) / float64(m.Experts)
		default:
			sum += n * float64(tokens)
		}
	})
	return sum
}

// write writes a GGUF file with random weights to a folder and returns its path. It keeps an existing file.
func (m modelShape) write(folder string, f blockFormat) (string, error) {
	path := filepath.Join(folder, fmt.Sprintf("%s-%dx-%s.gguf", strings.ToLower(m.Name), m.Layers, f.name))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	var sources []tensor.Source
	m.tensors(func(name string, std float64, blocks bool, shape ...int) {
		sources = append(sources, f.source(name, uint64(len(sources)), std, blocks, shape))
	})
	return path, gguf.Write(path, m.meta(), sources)
}

// poolBytes is the approximate number of random bytes repeated in a tensor. It exceeds every cache.
const poolBytes = 64 << 20

// source returns the source of a tensor's elements.
func (f blockFormat) source(name string, seed uint64, std float64, blocks bool, shape []int) tensor.Source {
	if !blocks {
		a := array.New(graph.Type{DType: graph.F32, Shape: shape})
		if a.Fill(1); std > 0 {
			a = normal(seed, std, graph.F32, shape...)
		}
		return tensor.Of(name, a)
	}
	t := graph.Type{DType: f.dtype, Shape: shape}
	return tensor.Source{Name: name, Type: t, Write: func(w io.Writer) error {
		elements := min(t.Len(), poolBytes/f.bytes*f.elements)
		pool := f.random(seed, elements, std)
		for rest := t.Bytes(); rest > 0; rest -= int64(len(pool)) {
			if _, err := w.Write(pool[:min(rest, int64(len(pool)))]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// meta returns the keys of the file. Its vocabulary has a token for each byte, and words.
func (m modelShape) meta() []gguf.Meta {
	g := tokenizer.GGUF{Model: "llama", BOS: 1, EOS: 2, Unknown: 0, Pad: -1, AddSpace: true}
	for id := range m.Vocab {
		text, kind := fmt.Sprintf("▁w%d", id), int32(1)
		switch {
		case id < 3:
			text, kind = []string{"<unk>", "<s>", "</s>"}[id], []int32{2, 3, 3}[id]
		case id < 3+256:
			text, kind = fmt.Sprintf("<0x%02X>", id-3), 6
		}
		g.Tokens, g.Types, g.Scores = append(g.Tokens, text), append(g.Types, kind), append(g.Scores, -float32(id))
	}
	a, ffn := m.Architecture, "feed_forward_length"
	if a == "qwen3moe" {
		ffn = "expert_feed_forward_length"
	}
	meta := []gguf.Meta{{Key: "general.architecture", Value: a}, {Key: "general.type", Value: "model"}, {Key: "general.name", Value: m.Name + ", random"}}
	for _, k := range []struct {
		key   string
		value any
	}{
		{"context_length", uint32(m.Context)}, {"embedding_length", uint32(m.Hidden)}, {"block_count", uint32(m.Layers)},
		{ffn, uint32(m.FFN)},
		{"expert_count", uint32(m.Experts)}, {"expert_used_count", uint32(m.TopK)},
		{"attention.head_count", uint32(m.Heads)}, {"attention.head_count_kv", uint32(m.KVHeads)},
		{"attention.key_length", uint32(m.HeadWidth)}, {"attention.value_length", uint32(m.HeadWidth)},
		{"attention.layer_norm_rms_epsilon", m.Epsilon}, {"rope.freq_base", m.Theta},
	} {
		meta = append(meta, gguf.Meta{Key: a + "." + k.key, Value: k.value})
	}
	for _, k := range g.Keys() {
		meta = append(meta, gguf.Meta{Key: k.Name, Value: k.Value})
	}
	return meta
}

// firstToken is the report of a process after opening a model and generating a token.
type firstToken struct {
	Resident int64 `json:"resident"` // resident bytes of its own, excluding the mapped file and the planned caches
}

// opening starts a process that opens the file and generates a token; the time includes starting it.
func (l llm) opening(threads int) (*subject, error) {
	s, err := l.subject(threads, 1, func(*opened, *rand.Rand) error { return nil })
	if err != nil {
		return nil, err
	}
	if err := s.close(); err != nil { // the other processes need the memory
		return nil, err
	}
	s.close = func() error { return nil }
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var last firstToken
	s.step = func() error {
		cmd := exec.Command(exe, "-first", s.file)
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", threads))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("bench: opening %s: %w", s.file, err)
		}
		return json.Unmarshal(out, &last)
	}
	s.resident = func() int64 { return last.Resident }
	return s, s.step()
}

// first opens a file, generates a token, and writes a firstToken.
func first(path string, out io.Writer) error {
	o, err := openModel(path, 1)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := complete(o.g, generate.Request{Prompt: []int32{300}, N: 1}); err != nil {
		return err
	}
	var f firstToken
	if own := ownMemory(); own > 0 {
		f.Resident = max(0, own-o.g.Memory().Caches)
	}
	return json.NewEncoder(out).Encode(f)
}

// ownMemory returns the resident bytes of this process excluding mapped files, 0 if the system does not report them.
func ownMemory() int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "RssAnon:" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
