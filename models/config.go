package models

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/checkpoint"
)

// reader reads what a model says about itself, and knows what has been read. After an error all further reads return
// zeros.
type reader struct {
	files *checkpoint.Checkpoint
	c     checkpoint.Config
	read  map[string]bool // settings that the family has asked for
	said  []Setting       // what it got
	// fractions is that YaRN's range of pairs begins and ends between two pairs, which GGUF files do not say.
	fractions bool
	factors   []float32 // of the frequencies of positions; nil if files of GGUF say nothing but numbers about them
	err       error
}

func newReader(c *checkpoint.Checkpoint) *reader {
	return &reader{files: c, c: c.Config, read: map[string]bool{}}
}

// keys are the names of a setting in config.json and in GGUF files.
type keys [2]string

func (r *reader) key(k keys) string {
	key := k[0]
	if r.c.GGUF() {
		key = k[1]
	}
	r.read[key] = true
	return key
}

// size returns a setting that must be there, and be at least 1.
func (r *reader) size(k keys) int {
	n, ok, err := r.c.Int(r.key(k))
	if err == nil && !ok {
		err = fmt.Errorf("%s: %s is missing", r.c.Path, r.key(k))
	} else if err == nil && n < 1 {
		err = fmt.Errorf("%s: %s is 0, want at least 1", r.c.Path, r.key(k))
	}
	r.fail(err)
	r.say(k, n, false)
	return n
}

// sizeOr returns a setting, or another value if it is not there or 0.
func (r *reader) sizeOr(k keys, other int) int {
	n := or(r, k, r.c.Int, other)
	if n == 0 {
		n = other
	}
	r.say(k, n, n == other)
	return n
}

func (r *reader) numberOr(k keys, other float64) float64 { return or(r, k, r.c.Float, other) }

func (r *reader) flagOr(k keys, other bool) bool { return or(r, k, r.c.Bool, other) }

// flagOrTensor returns a setting of config.json, or another value if it is not there. GGUF files say it by having a tensor.
func (r *reader) flagOrTensor(key string, other bool, tensor string) bool {
	x := false
	if r.c.GGUF() {
		_, err := r.files.Tensor(tensor)
		x = err == nil
	} else {
		x = r.flagOr(keys{key}, other)
	}
	r.say(keys{key}, x, true)
	return x
}

func (r *reader) textOr(k keys, other string) string { return or(r, k, r.c.Text, other) }

// or returns what get gets for a setting, or another value if the setting is not there.
func or[T comparable](r *reader, k keys, get func(string) (T, bool, error), other T) T {
	x, ok, err := get(r.key(k))
	if r.fail(err); !ok {
		x = other
	}
	r.say(k, x, x == other)
	return x
}

// list returns a setting of config.json that is a list of integers or of texts, nothing if it is not there.
func list[T int | string](r *reader, key, want string) []T {
	if r.c.GGUF() {
		return nil
	}
	v, ok := r.c.Value(r.key(keys{key}))
	if !ok {
		return nil
	}
	items, ok := v.([]any)
	var out []T
	for _, item := range items {
		if x, number := item.(float64); number && x == float64(int(x)) {
			item = int(x)
		}
		x, is := item.(T)
		ok = ok && is
		out = append(out, x)
	}
	if !ok {
		r.fail(fmt.Errorf("%s: %s is %q, want a list of %s", r.c.Path, key, fmt.Sprint(v), want))
	}
	r.say(keys{key}, out, len(out) == 0)
	return out
}

// either returns the first of the names that is there, or the first of all.
func (r *reader) either(names ...keys) keys {
	for _, k := range names {
		if _, ok := r.c.Value(r.key(k)); ok && r.key(k) != "" {
			return k
		}
	}
	return names[0]
}

// only is an error if a setting is there and is not want: nothing that changes results is ignored.
func (r *reader) only(k keys, want string) {
	v, ok := r.c.Value(r.key(k))
	if ok && r.key(k) != "" && fmt.Sprint(v) != want {
		r.fail(fmt.Errorf("%s: %s is %q, want %s: gomoe knows no other for this architecture", r.c.Path, r.key(k), fmt.Sprint(v), want))
	}
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// done returns the first error, or that there is a setting which nothing has read.
func (r *reader) done() error {
	if r.err != nil {
		return r.err
	}
	if err := r.quantized(); err != nil {
		return err
	}
	for _, key := range r.c.Keys() {
		if !r.read[key] && !slices.Contains(harmless(), key) {
			return fmt.Errorf("%s: setting %s is not known for architecture %q and may change results; take it out of the file if it does not", r.c.Path, key, r.c.Architecture)
		}
	}
	return nil
}

// harmless returns the settings that change nothing of what a model computes from tokens. The second part is that of GGUF files.
func harmless() []string {
	return []string{
		"_name_or_path", "architectures", "auto_map", "dtype", "model_type", "torch_dtype", "transformers_version", "unsloth_fixed", "unsloth_version", // of the file
		"bos_token_id", "eos_token_id", "pad_token_id", "output_attentions", "output_hidden_states", "output_router_logits", "return_dict", "use_cache", // of its use
		"attention_dropout", "aux_loss_alpha", "ep_size", "hidden_dropout", "initializer_range", "pretraining_tp", "router_aux_loss_coef", "router_jitter_noise", "seq_aux", // of training

		".rope.scaling.finetuned", ".vocab_size",
	}
}
