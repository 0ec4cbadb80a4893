package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/tokenizer"
)

// modelFiles returns the names of the files that save writes.
func modelFiles() []string {
	return []string{safetensors.FileName, checkpoint.ConfigName, tokenizer.FileName}
}

// save writes the trained model to a folder in the form of Hugging Face, where its architecture is called
// Mixtral: model.safetensors, config.json, and a tokenizer.json whose ids are bytes. weights are by name.
func (c config) save(folder string, weights map[string]array.Array) error {
	tensors := []tensor.Source{
		tensor.Of("model.embed_tokens.weight", weights["embed"]),
		tensor.Of("model.norm.weight", weights["norm"]),
		transposed("lm_head.weight", weights["head"]),
	}
	for l := range c.Layers {
		w := func(name string) array.Array { return weights[fmt.Sprintf("l%d_%s", l, name)] }
		at := fmt.Sprintf("model.layers.%d.", l)
		tensors = append(tensors,
			tensor.Of(at+"input_layernorm.weight", w("norm1")),
			transposed(at+"self_attn.q_proj.weight", w("wq")),
			transposed(at+"self_attn.k_proj.weight", w("wk")),
			transposed(at+"self_attn.v_proj.weight", w("wv")),
			transposed(at+"self_attn.o_proj.weight", w("wo")),
			tensor.Of(at+"post_attention_layernorm.weight", w("norm2")),
			transposed(at+"block_sparse_moe.gate.weight", w("router")),
		)
		for e := range c.Experts {
			expert := func(name string) array.Array {
				all := w(name)
				return all.Rows(e, e+1).Reshape(all.Type.Shape[1:]...)
			}
			at := fmt.Sprintf("%sblock_sparse_moe.experts.%d.", at, e)
			tensors = append(tensors,
				transposed(at+"w1.weight", expert("gate")),
				transposed(at+"w2.weight", expert("down")),
				transposed(at+"w3.weight", expert("up")),
			)
		}
	}
	if err := safetensors.Write(filepath.Join(folder, safetensors.FileName), map[string]string{"format": "pt"}, tensors); err != nil {
		return err
	}
	config, err := json.MarshalIndent(c.mixtral(), "", "  ")
	if err != nil {
		return err
	}
	bytes, err := tokenizer.Bytes()
	if err != nil {
		return err
	}
	return errors.Join(write(filepath.Join(folder, checkpoint.ConfigName), append(config, '\n')), write(filepath.Join(folder, tokenizer.FileName), bytes))
}

func write(path string, text []byte) error {
	return whole.Write(path, func(w io.Writer) error { _, err := w.Write(text); return err })
}

// transposed returns the source of w f32[in,out] as torch has the weights of a linear layer: [out,in].
func transposed(name string, w array.Array) tensor.Source {
	rows, cols := w.Type.Shape[0], w.Type.Shape[1]
	return tensor.Source{Name: name, Type: graph.T(graph.F32, cols, rows), Write: func(to io.Writer) error {
		x, y := array.Data[float32](w), array.New(graph.T(graph.F32, cols, rows))
		for i, to := 0, array.Data[float32](y); i < rows; i++ {
			for j := range cols {
				to[j*rows+i] = x[i*cols+j]
			}
		}
		_, err := to.Write(y.Bytes())
		return err
	}}
}

// mixtral returns the members of the model's config.json.
func (c config) mixtral() map[string]any {
	return map[string]any{
		"architectures":           []string{"MixtralForCausalLM"},
		"model_type":              "mixtral",
		"torch_dtype":             "float32",
		"vocab_size":              c.Vocab,
		"hidden_size":             c.Width,
		"intermediate_size":       c.FFN,
		"num_hidden_layers":       c.Layers,
		"num_attention_heads":     c.Heads,
		"num_key_value_heads":     c.Heads,
		"num_local_experts":       c.Experts,
		"num_experts_per_tok":     c.TopK,
		"max_position_embeddings": c.Seq,
		"rms_norm_eps":            epsilon,
		"rope_theta":              10000.0,
		"hidden_act":              "silu",
		"tie_word_embeddings":     false,
		"sliding_window":          nil,
		"bos_token_id":            nil,
		"eos_token_id":            nil,
	}
}
