package tokenizer

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Key is a GGUF key describing a vocabulary, with its value.
type Key struct {
	Name  string
	Value any // string, bool, uint32, []string, []float32, []int32 or []byte
}

// keyTemplate is the key of the default chat template, followed by a dot and a name the key of another, which keyTemplates
// lists. They do not have the prefix keyPrefix.
const (
	keyPrefix    = "tokenizer.ggml."
	keyTemplate  = "tokenizer.chat_template"
	keyTemplates = "tokenizer.chat_templates"
)

// ids returns the keys of special tokens and their fields.
func (g *GGUF) ids() []struct {
	name string
	id   *int32
} {
	return []struct {
		name string
		id   *int32
	}{{"bos_token_id", &g.BOS}, {"eos_token_id", &g.EOS}, {"unknown_token_id", &g.Unknown}, {"padding_token_id", &g.Pad}}
}

// endKeys lists the keys for GGUF.Ends.
func endKeys() []string { return []string{"eot_token_id", "eom_token_id"} }

// defaults returns the BOS and EOS tokens that llama.cpp uses if a file names none; -1 for none. For kind gpt2 they
// are Falcon's, a comma in most other vocabularies. GGUFOf therefore uses them only around a text: to llama.cpp this
// EOS token also ends an answer.
func (g *GGUF) defaults() (bos, eos int32) {
	switch g.Model {
	case "gpt2":
		if bos, eos = 11, 11; slices.Contains([]string{"glm4", "chatglm-bpe"}, g.Pre) {
			bos = -1
		}
	case "llama":
		bos, eos = 1, 2
	case "t5":
		bos, eos = -1, 1
	default:
		bos, eos = -1, -1
	}
	known := func(id int32) int32 {
		if int(id) < len(g.Tokens) {
			return id
		}
		return -1
	}
	return known(bos), known(eos)
}

// MaxEnds is the maximum number of GGUF.Ends that a file can store.
const MaxEnds = 2

// GGUFOf returns the vocabulary described by a GGUF file's keys. value returns the value of a key, or false if it
// is missing. A value of the wrong type is an error.
func GGUFOf(value func(key string) (any, bool)) (GGUF, error) {
	g := GGUF{}
	r := &keyReader{value: value}
	get(r, "model", &g.Model)
	get(r, "pre", &g.Pre)
	get(r, "tokens", &g.Tokens)
	get(r, "merges", &g.Merges)
	get(r, "scores", &g.Scores)
	get(r, "token_type", &g.Types)
	for _, s := range g.ids() {
		r.id(s.name, s.id)
	}
	for _, name := range endKeys() {
		id := int32(-1)
		if r.id(name, &id); id >= 0 {
			g.Ends = append(g.Ends, id)
		}
	}
	// Defaults of llama.cpp (src/llama-vocab.cpp) for missing keys.
	pre, _ := patterns(g.Pre)
	g.AddSpace = g.Model == "llama"
	bos, eos := g.defaults()
	g.AddBOS, g.AddEOS = g.Model == "llama" || g.Model == "gpt2" && pre.begins && max(g.BOS, bos) >= 0, g.Model == "t5"
	get(r, "add_bos_token", &g.AddBOS)
	get(r, "add_eos_token", &g.AddEOS)
	if g.BOS < 0 && (g.AddBOS || g.Model != "gpt2") {
		g.BOS = bos
	}
	if g.EOS < 0 && (g.AddEOS || g.Model != "gpt2") {
		g.EOS = eos
	}
	get(r, "add_space_prefix", &g.AddSpace)
	get(r, "remove_extra_whitespaces", &g.Squeeze)
	get(r, "precompiled_charsmap", &g.Charsmap)
	var names []string
	getKey(r, keyTemplates, &names)
	g.Templates = map[string]string{}
	for _, name := range append(names, "default") {
		var src string
		if getKey(r, templateKey(name), &src); src != "" {
			g.Templates[name] = src
		}
	}
	return g, r.err
}

// Keys returns the GGUF keys describing the vocabulary, in the form read by GGUFOf.
func (g GGUF) Keys() []Key {
	keys := []Key{{"model", g.Model}}
	if g.Model == "gpt2" {
		keys = append(keys, Key{"pre", g.Pre}, Key{"merges", append([]string{}, g.Merges...)})
	} else {
		keys = append(keys, Key{"pre", "default"}, Key{"scores", g.Scores}, Key{"add_space_prefix", g.AddSpace})
	}
	if g.Model == "t5" {
		if keys = append(keys, Key{"remove_extra_whitespaces", g.Squeeze}); g.Charsmap != nil {
			keys = append(keys, Key{"precompiled_charsmap", g.Charsmap})
		}
	}
	keys = append(keys, Key{"tokens", g.Tokens})
	if g.Types != nil {
		keys = append(keys, Key{"token_type", g.Types})
	}
	for _, s := range g.ids() {
		if *s.id >= 0 {
			keys = append(keys, Key{s.name, uint32(*s.id)})
		}
	}
	for i, name := range endKeys() {
		if i < len(g.Ends) {
			keys = append(keys, Key{name, uint32(g.Ends[i])})
		}
	}
	keys = append(keys, Key{"add_bos_token", g.AddBOS}, Key{"add_eos_token", g.AddEOS})
	for i := range keys {
		keys[i].Name = keyPrefix + keys[i].Name
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(g.Templates)) {
		keys = append(keys, Key{templateKey(name), g.Templates[name]})
		if name != "default" {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		keys = append(keys, Key{keyTemplates, names})
	}
	return keys
}

// templateKey returns the key of the chat template with a name.
func templateKey(name string) string {
	if name == "default" {
		return keyTemplate
	}
	return keyTemplate + "." + name
}

// keyReader reads keys. After an error all further reads do nothing.
type keyReader struct {
	value func(string) (any, bool)
	err   error
}

func (r *keyReader) wrong(key string, v, want any) {
	r.err = fmt.Errorf("tokenizer: GGUF: key %s has a value of Go type %T, want %T", quoted.Text(key), v, want)
}

// get sets dst to the value of a key with the prefix keyPrefix, or leaves it unchanged if the key is missing.
func get[T any](r *keyReader, key string, dst *T) { getKey(r, keyPrefix+key, dst) }

// getKey is get with the whole key.
func getKey[T any](r *keyReader, key string, dst *T) {
	v, ok := r.value(key)
	if !ok || r.err != nil {
		return
	}
	x, ok := v.(T)
	if !ok {
		r.wrong(key, v, *dst)
		return
	}
	*dst = x
}

// id sets dst to the id stored under a key, or to -1 if the key is missing or holds no id.
func (r *keyReader) id(key string, dst *int32) {
	*dst = -1
	v, ok := r.value(keyPrefix + key)
	if !ok || r.err != nil {
		return
	}
	switch x := reflect.ValueOf(v); {
	case x.CanUint() && x.Uint() != math.MaxUint32:
		*dst = int32(min(x.Uint(), math.MaxInt32))
	case x.CanUint(): // no token
	case x.CanInt():
		*dst = int32(min(max(x.Int(), -1), math.MaxInt32))
	default:
		r.wrong(keyPrefix+key, v, uint32(0))
	}
}
