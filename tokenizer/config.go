package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// Names of further files describing the tokens in a folder.
const (
	configName  = "tokenizer_config.json"
	specialName = "special_tokens_map.json"
	addedName   = "added_tokens.json"
	modelName   = "config.json"

	// Newer folders have templates in files: the default one, which replaces all of tokenizer_config.json, and a folder of others.
	templateName   = "chat_template.jinja"
	templateFolder = "additional_chat_templates"
	templateExt    = ".jinja"
)

// Files returns the files in a folder that Open may read, except config.json, for copying a tokenizer. Names of files in
// a folder below it have a slash.
func Files(folder string) (map[string][]byte, error) {
	return filesIn(folder, FileName, "tokenizer.model", vocabName, mergesName, addedName, configName, specialName)
}

// filesIn returns files in a folder by name: the named ones and chat templates, without missing ones.
func filesIn(dir string, names ...string) (map[string][]byte, error) {
	more, err := os.ReadDir(filepath.Join(dir, templateFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names = append(names, templateName)
	for _, f := range more {
		if filepath.Ext(f.Name()) == templateExt {
			names = append(names, templateFolder+"/"+f.Name())
		}
	}
	files := map[string][]byte{}
	for _, name := range names {
		data, err := read(filepath.Join(dir, name))
		if err == nil {
			files[name] = data
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return files, nil
}

// settingsIn returns the files next to that of the vocabulary by name, and the settings of tokenizer_config.json.
func settingsIn(dir string) (files map[string][]byte, c object, err error) {
	if files, err = filesIn(dir, configName, specialName, addedName, modelName); err != nil {
		return nil, c, err
	}
	c, err = settings(files)
	return files, c, inFolder(dir, err)
}

// inFolder adds the folder to an error that begins with a file's name.
func inFolder(dir string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%c%w", filepath.Clean(dir), filepath.Separator, err)
}

// configured applies the files in a folder.
func (t *Tokenizer) configured(dir string, c object, files map[string][]byte) error {
	if err := t.configure(c, files); err != nil {
		return inFolder(dir, err)
	}
	t.locate(filepath.Join(dir, configName))
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return filepath.Ext(name) != templateExt })
	if _, ok := files[templateName]; ok {
		t.templates, t.sources = nil, nil
	}
	for _, name := range slices.Backward(paths) { // a default in the folder replaces chat_template.jinja
		of := "default"
		if name != templateName {
			of = strings.TrimSuffix(filepath.Base(name), templateExt)
		}
		_ = t.setTemplate(of, string(files[name])) // the error is kept with the template
		t.locate(filepath.Join(dir, name))
	}
	return nil
}

// locate sets the path of new templates, and adds it to their errors.
func (t *Tokenizer) locate(path string) {
	for _, tmpl := range t.templates {
		if tmpl.path != "" {
			continue
		}
		if tmpl.path = path; tmpl.err != nil {
			tmpl.err = fmt.Errorf("%s: %w", path, tmpl.err)
		}
	}
}

// object is a JSON object preserving the order of its keys.
type object struct {
	strictjson.Ordered[json.RawMessage]
}

// objectOf parses the object in a file; a missing file gives an empty one.
func objectOf(data []byte) (o object, err error) {
	o.Values = map[string]json.RawMessage{}
	if data = bytes.TrimPrefix(data, []byte("\ufeff")); len(data) == 0 { // a byte order mark, written by some editors
		return o, nil
	}
	return o, strictjson.Unmarshal(data, &o)
}

// get unmarshals the value of a key into to. A missing or null key has no effect.
func (o object) get(name string, to any) error {
	if v, ok := o.Values[name]; ok {
		if err := strictjson.Unmarshal(v, to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// set sets the value of a key.
func (o *object) set(name string, value json.RawMessage) {
	if _, ok := o.Values[name]; !ok {
		o.Names = append(o.Names, name)
	}
	o.Values[name] = value
}

// token is a token in one of the files: a string, an object with the string as its content, or null for an empty
// token.
type token struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized *bool  `json:"normalized"`
	Special    *bool  `json:"special"`
}

func (t *token) UnmarshalJSON(data []byte) error {
	type fields token
	if bytes.HasPrefix(data, []byte("{")) {
		return strictjson.Unmarshal(data, (*fields)(t))
	}
	return strictjson.Unmarshal(data, &t.Content)
}

// added converts the token. A special token is matched in the unnormalized text unless it says otherwise.
func (t token) added(special bool) added {
	special = is(t.Special, special)
	return added{id: -1, text: t.Content, special: special, word: t.SingleWord, left: t.LStrip, right: t.RStrip, afterNormals: is(t.Normalized, !special)}
}

// named lists the tokens with a specific purpose, in the order of transformers.
func named() []string {
	return []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}
}

// configure reads the files, by name. The tokens they add to the tokenizer get the same ids as in transformers
// (tokenization_utils_base.py, _from_pretrained, and tokenization_utils_tokenizers.py, of 5.24).
func (t *Tokenizer) configure(c object, files map[string][]byte) error {
	special, extra, err := t.specialTokens(c)
	if err != nil {
		return fmt.Errorf("%s: %w", configName, err)
	}
	more, err := t.addedTokens(c, files[addedName], special, extra)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, a := range slices.Concat(t.tokens, more) {
		have[a.text] = true
	}
	for _, a := range slices.Concat(special, extra) {
		if !have[a.text] {
			more = append(more, a)
		}
	}
	if err := t.extend(more); err != nil {
		return fmt.Errorf("%s: %w", configName, err)
	}
	for _, n := range []struct {
		field string
		to    *int32
	}{{"bos_token", &t.named.BOS}, {"eos_token", &t.named.EOS}, {"pad_token", &t.named.Pad}, {"unk_token", &t.named.Unknown}} {
		for _, v := range t.written {
			if v.name == n.field {
				*n.to, _ = t.ID(v.text)
			}
		}
	}
	t.setTemplates(c.Values["chat_template"])
	if s, ok := t.normalize.(spaced); ok {
		if err := t.spaced(s, c, files[modelName]); err != nil {
			return err
		}
	}
	return t.cleanUp(c)
}

// Keys of further special tokens; transformers prefers the first key. specificKey has tokens by name.
const extraKey, additionalKey, specificKey = "extra_special_tokens", "additional_special_tokens", "model_specific_special_tokens"

// settings returns the keys of tokenizer_config.json. If it lacks added_tokens_decoder, it dates from a time when
// special_tokens_map.json took precedence.
func settings(files map[string][]byte) (object, error) {
	c, err := objectOf(files[configName])
	if err != nil {
		return c, fmt.Errorf("%s: %w", configName, err)
	}
	var split *bool
	if err := c.get("split_special_tokens", &split); err != nil {
		return c, fmt.Errorf("%s: %w", configName, err)
	}
	if is(split, false) {
		return c, fmt.Errorf("%s: split_special_tokens is true, want false: special tokens in a text, such as a conversation's, would be pieces of text", configName)
	}
	if list, ok := c.Values[additionalKey]; ok && slices.Contains([]string{"", "null", "[]", "{}"}, string(c.Values[extraKey])) {
		c.set(extraKey, list)
		delete(c.Values, additionalKey)
	}
	if _, ok := c.Values["added_tokens_decoder"]; ok {
		return c, nil
	}
	more, err := objectOf(files[specialName])
	if err != nil {
		return c, fmt.Errorf("%s: %w", specialName, err)
	}
	for _, name := range more.Names {
		c.set(name, more.Values[name])
	}
	return c, nil
}

// specialTokens returns the named special tokens and the others, and records the names for templates.
func (t *Tokenizer) specialTokens(c object) (special, extra []added, err error) {
	add := func(name string, x token) {
		if x.Content == "" {
			return
		}
		a := x.added(true)
		a.special = true
		special = append(special, a)
		t.written = append(t.written, variable{name, x.Content})
	}
	own := slices.DeleteFunc(slices.Clone(c.Names), func(name string) bool { // such as image_token
		return !strings.HasSuffix(name, "_token") || !strings.HasPrefix(string(c.Values[name]), `"`) || slices.Contains(named(), name)
	})
	for _, name := range slices.Concat(named(), own) {
		var x token
		if err := c.get(name, &x); err != nil {
			return nil, nil, err
		}
		add(name, x)
	}
	key, apart := extraKey, extraKey
	if len(own) == 0 && !strings.HasPrefix(string(c.Values[key]), "{") { // otherwise transformers replaces the value of specificKey
		apart = specificKey
	}
	if strings.HasPrefix(string(c.Values[apart]), "{") { // tokens with names of their own
		o, err := objectOf(c.Values[apart])
		for _, name := range o.Names {
			var x token
			if err = errors.Join(err, o.get(name, &x)); err == nil {
				add(name, x)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", apart, err)
		}
		delete(c.Values, apart)
	}
	if _, ok := c.Values[key]; !ok {
		if _, pieces := t.normalize.(spaced); pieces {
			return special, nil, nil // there the control tokens replace the others
		}
		key = additionalKey
	}
	var list []token
	if err := c.get(key, &list); err != nil {
		return nil, nil, err
	}
	for _, x := range list {
		extra = append(extra, x.added(true))
	}
	return special, extra, nil
}

// addedTokens returns the tokens of added_tokens_decoder, or of added_tokens.json and the tokenizer, ordered by id.
func (t *Tokenizer) addedTokens(c object, file []byte, special, extra []added) ([]added, error) {
	isNamed := map[string]bool{}
	for _, a := range special {
		isNamed[a.text] = true
	}
	byID := map[int32]added{}
	if _, ok := c.Values["added_tokens_decoder"]; ok {
		var tokens map[string]token
		if err := c.get("added_tokens_decoder", &tokens); err != nil {
			return nil, fmt.Errorf("%s: %w", configName, err)
		}
		for key, x := range tokens {
			id, err := strconv.ParseInt(key, 10, 32)
			if err != nil || id < 0 {
				return nil, fmt.Errorf("%s: added_tokens_decoder: %s, want the id of a token", configName, quoted.Text(key))
			}
			a := x.added(false)
			a.id = int32(id)
			byID[a.id] = a
		}
	} else {
		isSpecial := maps.Clone(isNamed)
		if _, ok := c.Values[extraKey]; ok {
			for _, a := range extra {
				isSpecial[a.text] = true
			}
		}
		o, err := objectOf(file)
		for _, text := range o.Names {
			var id int32
			if err = errors.Join(err, o.get(text, &id)); err == nil {
				byID[id] = added{id: id, text: text, special: isSpecial[text], afterNormals: !isSpecial[text]}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", addedName, err)
		}
		for _, a := range t.tokens {
			byID[a.id] = a
		}
	}
	for id, a := range byID {
		a.special = a.special || isNamed[a.text]
		byID[id] = a
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b added) int { return cmp.Compare(a.id, b.id) }), nil
}

// extend adds tokens, or updates the properties of existing ones. A token missing from the vocabulary gets the next
// id, regardless of its own. In a SentencePiece model of byte pairs, the piece with the token's id gets the token's
// name.
func (t *Tokenizer) extend(more []added) error {
	all := slices.Clone(t.tokens)
	at := map[string]int{}
	next := int32(len(t.vocab.ids)) // follows the added tokens, too
	for i, a := range all {
		at[a.text], next = i, max(next, a.id+1)
	}
	s, pieces := t.normalize.(spaced)
	for _, a := range more {
		if a.text == "" {
			continue
		}
		if pieces {
			a.afterNormals = false // otherwise each token would be preceded by a space
			s.rename(t.vocab, a)
		}
		id, known := t.ID(a.text)
		if a.id = id; !known {
			a.id = next
			if err := t.vocab.set(a.text, a.id, len(t.vocab.texts)+len(more)); err != nil {
				return err
			}
			t.vocab.added[a.text] = a.id
		}
		next = max(next, a.id+1)
		if i, ok := at[a.text]; ok {
			all[i] = a
		} else {
			at[a.text], all = len(all), append(all, a)
		}
	}
	return t.add(all)
}

// rename renames the piece with a token's id to the token, unless another piece has this name.
func (s spaced) rename(vocab *vocabulary, a added) {
	if _, taken := vocab.ids[a.text]; taken || !s.bpe || a.id < 0 || int(a.id) >= len(s.texts) {
		return
	}
	delete(vocab.ids, vocab.texts[a.id])
	vocab.ids[a.text], vocab.texts[a.id] = a.id, a.text
}

// spaced sets the tokens added around a text, and the placement of spaces before words. A tokenizer.json defines
// both itself.
func (t *Tokenizer) spaced(s spaced, c object, model []byte) error {
	var f struct{ addBOS, addEOS, legacy, prefix *bool }
	name, err := class(c, model, false)
	if err != nil {
		return err
	}
	for name, to := range map[string]any{"add_bos_token": &f.addBOS, "add_eos_token": &f.addEOS, "legacy": &f.legacy, "add_prefix_space": &f.prefix} {
		if err := c.get(name, to); err != nil {
			return fmt.Errorf("%s: %w", configName, err)
		}
	}
	for _, n := range []struct {
		add *bool
		id  int32
		to  *[]int32
	}{{f.addBOS, t.named.BOS, &t.before}, {f.addEOS, t.named.EOS, &t.after}} {
		if n.add == nil {
			continue
		}
		if *n.to = nil; *n.add && n.id >= 0 {
			*n.to = []int32{n.id}
		}
	}
	// The class for LlamaTokenizer places spaces in the newer of two ways, unless the file asks for the other.
	own := name == "LlamaTokenizer"
	if own && !is(f.prefix, true) {
		s.prefix = false
	}
	if m, ok := t.model.(*bpe); ok && own {
		m.merges, s.byID = s.mergesByID(t.vocab), true
	}
	legacy := is(f.legacy, !own)
	s.once = own || !legacy
	if t.normalize = s; !legacy {
		s.bare = true
		t.later = s
	}
	return nil
}
