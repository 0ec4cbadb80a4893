package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Files returns the files of a Hugging Face folder for the vocabulary of a GGUF file, by name: tokenizer.json and
// tokenizer_config.json. It compares the ids of some texts, and returns an error if tokenizer.json cannot represent
// the vocabulary.
func (g GGUF) Files() (map[string][]byte, error) {
	files, err := g.files()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: GGUF: %w", err)
	}
	return files, nil
}

func (g *GGUF) files() (map[string][]byte, error) {
	want, err := g.build()
	if err != nil {
		return nil, err
	}
	var parts map[string]any
	if g.Model == "t5" {
		return nil, errors.New("a vocabulary of kind t5, for which gomoe writes no tokenizer.json; take the folder that the file was made of")
	}
	if g.Model == "llama" {
		parts = g.spacesJSON()
	} else if parts, err = g.bytesJSON(); err != nil {
		return nil, err
	}
	parts["version"], parts["truncation"], parts["padding"] = "1.0", nil, nil
	parts["added_tokens"], parts["post_processor"] = g.addedJSON(), g.aroundJSON()
	text, err := indented(parts)
	if err != nil {
		return nil, err
	}
	config := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false, "add_bos_token": g.AddBOS, "add_eos_token": g.AddEOS}
	for _, s := range want.written {
		config[s.name] = s.text
	}
	var templates []namedTemplate
	for _, name := range slices.Sorted(maps.Keys(want.sources)) {
		templates = append(templates, namedTemplate{name, want.sources[name]})
	}
	if len(templates) == 1 && templates[0].Name == "default" {
		config["chat_template"] = templates[0].Template
	} else if len(templates) > 0 {
		config["chat_template"] = templates
	}
	more, err := indented(config)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{configName: more}
	c, err := settings(files)
	if err != nil {
		return nil, err
	}
	got, err := Parse(text)
	if err == nil {
		err = got.configure(c, files)
	}
	if err == nil {
		err = g.alike(want, got)
	}
	files[FileName] = text
	return files, err
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// vocabJSON returns the ids of all tokens except unused ones.
func (g *GGUF) vocabJSON() map[string]int {
	ids := map[string]int{}
	for id, text := range g.Tokens {
		if g.kind(id) != unusedPiece {
			ids[text] = id
		}
	}
	return ids
}

// addedJSON returns the tokens matched in a text before splitting.
func (g *GGUF) addedJSON() []addedJSON {
	all := []addedJSON{}
	for id, text := range g.Tokens {
		if k := g.kind(id); text != "" && (k == controlPiece || k == userPiece || k == unknownPiece) {
			all = append(all, addedJSON{ID: int32(id), Content: text, Special: k != userPiece})
		}
	}
	return all
}

// aroundJSON returns the post-processor adding tokens around a text; nil if there are none.
func (g *GGUF) aroundJSON() any {
	if !g.AddBOS && !g.AddEOS {
		return nil
	}
	single, specials := []any{}, map[string]any{}
	token := func(id int32) {
		text := g.Tokens[id]
		single = append(single, map[string]any{"SpecialToken": map[string]any{"id": text, "type_id": 0}})
		specials[text] = map[string]any{"id": text, "ids": []int32{id}, "tokens": []string{text}}
	}
	if g.AddBOS {
		token(g.BOS)
	}
	single = append(single, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}})
	if g.AddEOS {
		token(g.EOS)
	}
	pair := append(append([]any{}, single...), map[string]any{"Sequence": map[string]any{"id": "B", "type_id": 1}})
	return map[string]any{"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": specials}
}

// modelOf returns a model of byte pairs.
func modelOf(vocab map[string]int, merges []mergeJSON, unknown any, byBytes, whole bool) map[string]any {
	return map[string]any{
		"type": "BPE", "dropout": nil, "unk_token": unknown, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
		"fuse_unk": byBytes, "byte_fallback": byBytes, "ignore_merges": whole, "vocab": vocab, "merges": append([]mergeJSON{}, merges...),
	}
}

// bytesJSON returns the components of a tokenizer.json for a vocabulary of kind gpt2.
func (g *GGUF) bytesJSON() (map[string]any, error) {
	pre, _ := patterns(g.Pre) // checked by build
	merges := make([]mergeJSON, len(g.Merges))
	for i, s := range g.Merges {
		if err := merges[i].parse(s); err != nil {
			return nil, err
		}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	var splits []any
	for _, cut := range pre.cuts {
		splits = append(splits, map[string]any{"type": "Split", "pattern": map[string]string{"Regex": cut}, "behavior": "Isolated", "invert": false})
	}
	var normal any
	if pre.compose {
		normal = map[string]string{"type": "NFC"}
	}
	return map[string]any{
		"normalizer":    normal,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": append(splits, level)},
		"decoder":       level,
		"model":         modelOf(g.vocabJSON(), merges, nil, false, pre.whole),
	}, nil
}

// spacesJSON returns the components of a tokenizer.json for a vocabulary of kind llama.
func (g *GGUF) spacesJSON() map[string]any {
	replace := func(from, to string) map[string]any {
		return map[string]any{"type": "Replace", "pattern": map[string]string{"String": from}, "content": to}
	}
	normals := []any{replace(" ", "▁")}
	decoders := []any{replace("▁", " "), map[string]string{"type": "ByteFallback"}, map[string]string{"type": "Fuse"}}
	if g.AddSpace {
		normals = append([]any{map[string]string{"type": "Prepend", "prepend": "▁"}}, normals...)
		decoders = append(decoders, map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	var unknown any
	if g.Unknown >= 0 {
		unknown = g.Tokens[g.Unknown]
	}
	return map[string]any{
		"normalizer":    map[string]any{"type": "Sequence", "normalizers": normals},
		"pre_tokenizer": nil,
		"decoder":       map[string]any{"type": "Sequence", "decoders": decoders},
		"model":         modelOf(g.vocabJSON(), g.merges(), unknown, true, false),
	}
}
