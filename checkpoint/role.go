package checkpoint

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Part is a category of a model's tensors.
type Part string

// Parts of a model, in the order of tables.
const (
	Embedding Part = "embedding"
	Attention Part = "attention"
	Router    Part = "router"
	Experts   Part = "experts"
	Shared    Part = "shared experts"
	Dense     Part = "dense layers"
	Norms     Part = "norms"
	Head      Part = "head"
	Other     Part = "other"
)

// Parts returns all parts.
func Parts() []Part {
	return []Part{Embedding, Attention, Router, Experts, Shared, Dense, Norms, Head, Other}
}

// Layout is the layout of a layer's expert matrices in tensors. E is the number of experts, H the hidden width, I
// the width of an expert.
type Layout string

// Published layouts. They are distinguished by the names of tensors and the architecture, never by shapes, which
// are ambiguous if 2I = H or I = H.
const (
	PerExpert  Layout = "a tensor per expert, [I,H] and [H,I]"
	Fused      Layout = "gate and up of all experts in one tensor [E,2I,H], gate before up"
	Transposed Layout = "gate and up of all experts in one tensor [E,H,2I]"
	Blocks     Layout = "gate and up of all experts in one tensor of blocks with scales, [E,2I,H] in blocks along H, rows of gate and up in turn"
	Stacked    Layout = "a tensor for all experts, [E,I,H] and [E,H,I]"
)

// Role is the role of a tensor in a model.
type Role struct {
	Part   Part
	Layer  int    // -1 if the tensor belongs to no layer
	Expert int    // -1 if the tensor belongs to no expert, or to all
	Layout Layout // of experts
	Scales bool   // the tensor holds scales or offsets for another one's elements
}

// matchers are the patterns of names; all but the first match the part following the layer's number.
type matchers struct {
	layer, expert, fused, blocks, stacked, shared, router, attention, norm, dense, embedding, head, scales *regexp.Regexp
}

// Names interprets the names of tensors for one architecture, because architectures use the same names for
// different layouts.
type Names struct {
	architecture string
	m            matchers
}

// NamesOf returns the Names of an architecture.
func NamesOf(architecture string) *Names {
	return &Names{architecture, matchers{
		layer:     regexp.MustCompile(`^(?:model\.|language_model\.|transformer\.)*(?:layers|blk|blocks|h)\.(\d+)\.(.+)$`),
		expert:    regexp.MustCompile(`\bexperts\.(\d+)\.`),
		fused:     regexp.MustCompile(`\bexperts\.(?:gate_up_proj|down_proj)(?:_bias)?$`),
		blocks:    regexp.MustCompile(`\bexperts\.(?:gate_up_proj|down_proj)_(?:blocks|scales)$`),
		stacked:   regexp.MustCompile(`\bswitch_mlp\.|_exps\.`),
		shared:    regexp.MustCompile(`\bshared_experts?(?:_gate)?\.|_shexp\.`),
		router:    regexp.MustCompile(`\b(?:mlp|ffn|block_sparse_moe|feed_forward)\.(?:gate|router)\.|\bffn_gate_inp\b|exp_probs_b|e_score_correction_bias|tid2eid`),
		attention: regexp.MustCompile(`attn|attention`),
		norm:      regexp.MustCompile(`norm`),
		dense:     regexp.MustCompile(`\b(?:mlp|ffn|feed_forward)\.|\bffn_(?:gate|up|down)\.`),
		embedding: regexp.MustCompile(`embed_tokens|token_embd|wte`),
		head:      regexp.MustCompile(`lm_head|^output\.`),
		scales:    regexp.MustCompile(`(?:\.scales|\.biases|_scales|_scale_inv|\.scale|_scale)$`),
	}}
}

// Role returns the role of the named tensor.
func (n *Names) Role(name string) Role {
	m := &n.m
	r := Role{Part: Other, Layer: -1, Expert: -1, Scales: m.scales.MatchString(name)}
	rest := name
	if at := m.layer.FindStringSubmatch(name); at != nil {
		if l, err := strconv.Atoi(at[1]); err == nil {
			r.Layer, rest = l, at[2]
		}
	}
	switch {
	case m.expert.MatchString(rest):
		r.Part, r.Layout = Experts, PerExpert
		r.Expert, _ = strconv.Atoi(m.expert.FindStringSubmatch(rest)[1]) // digits only; a number out of range gives the largest int
	case m.blocks.MatchString(rest):
		r.Part, r.Layout = Experts, Blocks
	case m.fused.MatchString(rest):
		r.Part, r.Layout = Experts, Fused
		if slices.Contains([]string{"gpt_oss", "llama4", "llama4_text", "qwen3_vl_moe", "qwen3_vl_moe_text"}, n.architecture) {
			r.Layout = Transposed
		}
	case m.stacked.MatchString(rest):
		r.Part, r.Layout = Experts, Stacked
	case m.shared.MatchString(rest):
		r.Part = Shared
	case m.router.MatchString(rest):
		r.Part = Router
	case r.Layer >= 0 && strings.Contains(rest, "norm") && !strings.Contains(rest, "self_attn."):
		r.Part = Norms
	case r.Layer >= 0 && m.attention.MatchString(rest):
		r.Part = Attention
	case r.Layer >= 0 && m.dense.MatchString(rest):
		r.Part = Dense
	case r.Layer < 0 && m.norm.MatchString(rest):
		r.Part = Norms
	case r.Layer < 0 && m.embedding.MatchString(rest):
		r.Part = Embedding
	case r.Layer < 0 && m.head.MatchString(rest):
		r.Part = Head
	}
	return r
}
