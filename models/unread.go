package models

import (
	"reflect"
	"strings"
)

// A setting that no family reads is an error, unless it cannot change the text that a model gives: harmless names settings of training,
// of generation and of the programs that write files, neutral has settings with the value at which they do nothing, and a setting
// without a value, as states tells, asks for nothing.

// states reports whether a value asks for something: null, false, 0 and what is empty do not.
func states(v any) bool {
	x := reflect.ValueOf(v)
	switch x.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Slice, reflect.Map:
		return x.Len() > 0
	}
	return !x.IsZero()
}

// harmless reports whether a setting changes nothing of what a model computes from tokens. Names that begin with _ or unsloth_ are notes
// of the programs that write config.json.
func harmless(key string) bool {
	if strings.HasPrefix(key, "_") || strings.HasPrefix(key, "unsloth_") {
		return true
	}
	switch key {
	// The file and the programs that wrote it.
	case "architectures", "attn_implementation", "auto_map", "dtype", "experts_implementation", "is_llama_config", "model_type", "name_or_path",
		"torch_dtype", "transformers.js_config", "transformers_version", "use_bfloat16", "use_flash_attention", "use_flash_attention_2", "use_flash_attn":
		return true
	// Tokens and texts, which the tokenizer's files have.
	case "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id", "pad_token_id",
		"prefix", "sep_token_id", "suppress_tokens", "tokenizer_class":
		return true
	// How long a text may be, which is max_position_embeddings.
	case "max_length", "max_sequence_length", "min_length", "model_max_length", "seq_length":
		return true
	// How tokens are chosen, which whoever asks for a text says.
	case "bad_words_ids", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
		"length_penalty", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "remove_invalid_values", "repetition_penalty",
		"temperature", "top_k", "top_p", "typical_p":
		return true
	// What a call returns, and how it computes it.
	case "chunk_size_feed_forward", "keys_to_ignore_at_inference", "output_attentions", "output_hidden_states", "output_router_logits", "output_scores",
		"pretraining_tp", "return_dict", "return_dict_in_generate", "tie_last_hidden_states", "torchscript", "use_cache", "use_return_dict":
		return true
	// Classification, and models with an encoder, which the same classes are parts of.
	case "classifier_dropout", "finetuning_task", "id2label", "is_decoder", "label2id", "num_labels", "problem_type", "task_specific_params",
		"tie_encoder_decoder":
		return true
	// Training.
	case "attention_dropout", "attn_pdrop", "aux_loss_alpha", "embd_pdrop", "embedding_dropout", "ep_size", "gradient_checkpointing", "hidden_dropout",
		"hidden_dropout_prob", "initializer_range", "neftune_noise_alpha", "resid_pdrop", "router_aux_loss_coef", "router_jitter_noise",
		"router_z_loss_coef", "seq_aux":
		return true
	// GGUF files.
	case ".rope.scaling.finetuned", ".tensor_data_layout", ".vocab_size":
		return true
	}
	return false
}

// neutral returns settings that architectures other than gomoe's follow, with the value at which they do nothing.
func neutral() map[string]string {
	return map[string]string{
		"embedding_multiplier": "1", "logit_scale": "1", "logits_scaling": "1", "residual_multiplier": "1", "rotary_pct": "1",
		"is_causal": "true", "scale_attn_weights": "true", "use_rope": "true", "position_embedding_type": "rope",

		".attention.causal": "true",
	}
}
