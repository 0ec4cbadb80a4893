package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/strictjson"
)

// byteClass is a class of transformers that builds its normalizer, pre-tokenizer and decoder itself, with tokens of
// bytes, whatever a tokenizer.json says.
type byteClass struct {
	pre     string // name in patterns
	compose bool   // convert text to form NFC first
	named   string // special tokens, if no file names them
}

func byteClasses() map[string]byteClass {
	const end = `{"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": null}`
	const qwen = `{"unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}`
	const neoX = `{"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|padding|>"}`
	const roberta = `{"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}`
	const cohere = `{"unk_token": "<UNK>", "bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>", "cls_token": "<CLS>", "sep_token": "<SEP>", "mask_token": "<MASK_TOKEN>"}`
	return map[string]byteClass{
		"GPT2Tokenizer":    {"gpt-2", false, end},
		"CodeGenTokenizer": {"gpt-2", false, end},
		"RobertaTokenizer": {"gpt-2", false, roberta},
		"GPTNeoXTokenizer": {"gpt-2", true, neoX},
		"CohereTokenizer":  {"command-r", true, cohere},
		"Qwen2Tokenizer":   {"qwen2", true, qwen},
		"Qwen3_5Tokenizer": {"qwen35", true, qwen},
	}
}

// backend is the class of transformers that follows a tokenizer.json.
const backend = "TokenizersBackend"

// class returns the class of transformers by which AutoTokenizer opens a folder with these settings and this
// config.json, without the suffix Fast (tokenization_auto.py of 5.24). byteLevel is set if its tokenizer.json
// has a component ByteLevel.
func class(c object, model []byte, byteLevel bool) (name string, err error) {
	if err := c.get("tokenizer_class", &name); err != nil {
		return "", fmt.Errorf("%s: %w", configName, err)
	}
	m, err := objectOf(model)
	var kind string
	for key, to := range map[string]*string{"model_type": &kind, "tokenizer_class": &name} {
		if err == nil && *to == "" {
			err = m.get(key, to)
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", modelName, err)
	}
	name = strings.TrimSuffix(name, "Fast")
	mistral := []string{"mistral", "mistral3", "mistral_large4", "mixtral", "ministral", "ministral3", "pixtral", "voxtral"}
	switch {
	case slices.Contains(mistral, kind), kind == "glm4_moe", name == "LlamaTokenizer" && byteLevel:
		return backend, nil
	case name != "":
		return name, nil
	case slices.Contains([]string{"qwen2_moe", "qwen3", "qwen3_moe"}, kind):
		return "Qwen2Tokenizer", nil
	case kind == "olmoe":
		return "GPTNeoXTokenizer", nil
	}
	return backend, nil
}

// parseFile parses a tokenizer.json. The settings c and config.json decide which steps the class in transformers
// replaces. The pad_token of the padding is added to c, unless c or the class names another one.
func parseFile(data []byte, c object, model []byte) (*file, error) {
	var f file
	if err := strictjson.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	var err error
	if f.class, err = class(c, model, bytes.Contains(data, []byte(`"ByteLevel"`))); err != nil {
		return nil, err
	}
	if f.Model != nil && (f.Model.Type == "BPE" || f.Model.Type == "") {
		if err := f.rebuild(c); err != nil {
			return nil, fmt.Errorf("%s: %w", configName, err)
		}
	}
	if f.Padding != nil && f.Padding.Token != nil && c.Values["pad_token"] == nil && f.named.Values["pad_token"] == nil {
		c.set("pad_token", f.Padding.Token)
	}
	return &f, nil
}

// rebuild replaces the steps that a class of transformers builds itself.
func (f *file) rebuild(c object) error {
	var prefix, legacy *bool
	for key, to := range map[string]**bool{"add_prefix_space": &prefix, "legacy": &legacy} {
		if err := c.get(key, to); err != nil {
			return err
		}
	}
	plain, space := " ", "▁"
	spaces := []*component{{Type: "Replace", Pattern: &patternJSON{String: &space}, Content: plain}, {Type: "ByteFallback"}, {Type: "Fuse"}}
	k, ok := byteClasses()[f.class]
	switch {
	case ok:
		if f.Normalize = nil; k.compose {
			f.Normalize = &component{Type: "NFC"}
		}
		f.Split = &component{Type: "Sequence"}
		w, _ := patterns(k.pre)
		cut, first := false, is(prefix, false)
		for _, regex := range w.cuts {
			if cut = regex == wordsOfGPT2; !cut { // ByteLevel itself has this pattern, and cuts after adding a space
				f.Split.Pretokenizers = append(f.Split.Pretokenizers, &component{Type: "Split", Pattern: &patternJSON{Regex: &regex}, Behavior: "Isolated"})
			}
		}
		f.Split.Pretokenizers = append(f.Split.Pretokenizers, &component{Type: "ByteLevel", PrefixSpace: &first, Regex: &cut})
		f.Decode = &component{Type: "ByteLevel"}
	case f.class == "GemmaTokenizer":
		k.named = `{"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "mask_token": "<mask>"}`
		f.Normalize = &component{Type: "Replace", Pattern: &patternJSON{String: &plain}, Content: space}
		f.Split = &component{Type: "Split", Pattern: &patternJSON{String: &plain}, Behavior: "MergedWithPrevious"}
		f.Decode = &component{Type: "Sequence", Decoders: spaces}
	case f.class == "LlamaTokenizer":
		k.named = `{"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}`
		scheme, cut := "never", false
		if is(prefix, true) {
			if scheme = "first"; is(legacy, false) {
				scheme = "always"
			}
			spaces = append(spaces, &component{Type: "Strip", Content: plain, Start: 1})
		}
		f.Normalize, f.Split = nil, &component{Type: "Metaspace", Replacement: space, Scheme: &scheme, Cut: &cut}
		f.Decode = &component{Type: "Sequence", Decoders: spaces}
	default:
		return nil
	}
	// Such a class ignores the added tokens of tokenizer.json if tokenizer_config.json has any.
	if slices.SortStableFunc(f.Added, func(a, b addedJSON) int { return cmp.Compare(a.ID, b.ID) }); c.Values["added_tokens_decoder"] != nil {
		f.Added = nil
	}
	f.Model.Ignore, f.Model.Fallback, f.Model.FuseUnk = false, !ok, !ok
	var err error
	f.named, err = objectOf([]byte(k.named))
	return err
}

// nameDefaults adds the tokens named by a class to the settings, unless c names others. Such a token is left out if
// the vocabulary lacks it: transformers would add it, with an id for which a model has no row.
func (f *file) nameDefaults(t *Tokenizer, c object) error {
	for name, value := range f.named.Values {
		var x token
		if err := f.named.get(name, &x); err != nil {
			return err
		}
		if _, known := t.ID(x.Content); known && c.Values[name] == nil {
			c.set(name, value)
		}
	}
	return nil
}

// cleanUp adds clean_up_tokenization_spaces to the decoder. transformers ignores it for byte pairs, unless a second
// setting insists on it.
func (t *Tokenizer) cleanUp(c object) error {
	var clean, always *bool
	for key, to := range map[string]**bool{"clean_up_tokenization_spaces": &clean, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": &always} {
		if err := c.get(key, to); err != nil {
			return fmt.Errorf("%s: %w", configName, err)
		}
	}
	if _, pairs := t.model.(*bpe); !is(clean, false) || pairs && !is(always, false) {
		return nil
	}
	decoder := t.decoder
	t.decoder = func() []step { return append(decoder(), &cleanUpStep{}) }
	return nil
}
