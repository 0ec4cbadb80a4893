package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/tokenizer"
)

const (
	keyFileType = "general.file_type"
	keyBlocks   = "general.quantization_version" // version of the block layouts
	keyEnd      = "eos_token_id"
)

// meta returns the metadata of a GGUF file.
func (j *conversion) meta(dst string) ([]gguf.Meta, error) {
	t, err := j.most()
	if err != nil {
		return nil, err
	}
	var meta []gguf.Meta
	if j.c.Format == checkpoint.GGUF {
		meta, err = j.sameKeys()
	} else {
		meta, err = j.newKeys(strings.TrimSuffix(filepath.Base(dst), ".gguf"))
	}
	if n := fileType(t); n >= 0 {
		meta = append(meta, gguf.Meta{Key: keyFileType, Value: uint32(n)})
	}
	return append(meta, gguf.Meta{Key: keyBlocks, Value: uint32(2)}), err
}

// sameKeys copies the metadata of the source GGUF file, leaving out element types and the place in a set of files.
func (j *conversion) sameKeys() (meta []gguf.Meta, err error) {
	f, err := gguf.Open(j.c.Files[0])
	if err != nil {
		return nil, err
	}
	architecture := j.c.Config.Architecture
	for _, m := range f.Meta {
		switch m.Key {
		case architecture + ".nextn_predict_layers":
			continue
		case architecture + ".block_count": // the source also counts these layers
			m.Value = uint32(j.m.Layers)
		}
		if m.Key != keyFileType && m.Key != keyBlocks && m.Key != "general.alignment" && !strings.HasPrefix(m.Key, "split.") {
			meta = append(meta, m)
		}
	}
	return meta, f.Close()
}

// newKeys returns GGUF metadata for a Hugging Face folder.
func (j *conversion) newKeys(name string) ([]gguf.Meta, error) {
	architecture := j.m.Family.GGUF
	meta := []gguf.Meta{{Key: "general.architecture", Value: architecture}, {Key: "general.type", Value: "model"}, {Key: "general.name", Value: name}}
	have := map[string]bool{}
	for _, s := range j.m.Settings {
		if strings.HasPrefix(s.Name, "quantization_config.") {
			continue // it describes the elements of the source files
		}
		if s.GGUF == "" && !s.Usual {
			return nil, fmt.Errorf("%s: %s is %s, and GGUF files of %s have no key for it", j.c.Config.Path, s.Name, quoted.Value(s.Value), architecture)
		}
		if s.GGUF == "" || unsaid(s) || have[s.GGUF] {
			continue
		}
		have[s.GGUF] = true // several settings may map to the same key
		key := s.GGUF
		if key[0] == '.' {
			key = architecture + key
		}
		v := s.Value
		switch x := v.(type) {
		case int:
			v = uint32(x)
		case float64:
			if v = float32(x); strings.HasSuffix(key, "_length") { // llama.cpp requires integer numbers of positions
				v = uint32(x)
			}
		case []int:
			list := make([]int32, len(x))
			for i := range x {
				list[i] = int32(x[i])
			}
			v = list
		}
		meta = append(meta, gguf.Meta{Key: key, Value: v})
	}
	g, err := tokenizer.ToGGUF(j.folder(), j.m.Vocab)
	if err != nil {
		return nil, err
	}
	all, err := j.endTokens(g.EOS)
	if err != nil {
		return nil, err
	}
	if len(all) > 1+tokenizer.MaxEnds {
		return nil, fmt.Errorf("%s: tokens %v end a text, want at most %d, for which a GGUF file has keys", j.c.Config.Path, all, 1+tokenizer.MaxEnds)
	}
	if len(all) > 0 {
		// Write a second key even for a single end token: without it, tokens with certain names would end a text as well.
		g.EOS, g.Ends = all[0], append(all[1:], all[0])[:max(1, len(all)-1)]
	}
	for _, k := range g.Keys() {
		meta = append(meta, gguf.Meta{Key: k.Name, Value: k.Value})
	}
	return meta, nil
}

// endTokens returns the tokens ending a text according to the Hugging Face files. If first is among them, it comes
// first.
func (j *conversion) endTokens(first int32) ([]int32, error) {
	more, err := checkpoint.ReadConfig(filepath.Join(j.folder(), generationName))
	if err != nil {
		return nil, err
	}
	ids := map[int32]bool{}
	for _, c := range []checkpoint.Config{j.c.Config, more} {
		some, err := c.IDs(keyEnd)
		if err != nil {
			return nil, err
		}
		maps.Copy(ids, some)
	}
	delete(ids, first)
	all := slices.Sorted(maps.Keys(ids))
	if first >= 0 {
		all = append([]int32{first}, all...)
	}
	return all, nil
}

// unsaid reports whether files may omit a setting, because its value is implied.
func unsaid(s models.Setting) bool { return s.Value == nil || s.Usual && models.Absent(s.Value) }

const generationName = "generation_config.json"

// Describe returns the files other than tensors that a Hugging Face folder of the model c needs, by name:
// config.json, declaring matrices of element type t, and the tokenizer's files. It is an error if Model could not
// write such a folder. The given families are tried before those of package models.
func Describe(c *checkpoint.Checkpoint, t graph.DType, families ...models.Family) (map[string][]byte, error) {
	j := &conversion{o: Options{Layout: Safetensors, Type: t, Families: families}, c: c}
	var err error
	if j.m, err = models.Open(c, families...); err == nil {
		err = j.find()
	}
	if err == nil {
		_, err = j.sources()
	}
	var files map[string][]byte
	if err == nil {
		files, err = j.describe()
	}
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return files, nil
}

// maxBeside is the maximum size in bytes of a file other than tensors, as in package tokenizer.
const maxBeside = 256 << 20

// describe returns the files of a folder other than tensors, by name.
func (j *conversion) describe() (map[string][]byte, error) {
	if j.c.Format == checkpoint.GGUF {
		return j.describeGGUF()
	}
	files, err := tokenizer.Files(j.folder())
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"chat_template.json", generationName} {
		data, err := infile.Read(filepath.Join(j.folder(), name), maxBeside)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	data, err := infile.Read(j.c.Config.Path, maxBeside)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	further := len(models.Further(j.c)) > 0
	if j.o.Layout == Safetensors && j.o.Type == graph.NoDType && !further && !j.numbers {
		files[checkpoint.ConfigName] = data
		return files, nil
	}
	var values map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		return nil, fmt.Errorf("%s: %w", j.c.Config.Path, err)
	}
	if further {
		values["num_nextn_predict_layers"] = 0
	}
	if j.o.Type != graph.NoDType || j.numbers {
		key := "torch_dtype"
		if _, ok := values["dtype"]; ok {
			key = "dtype"
		}
		t, err := j.most()
		if err != nil {
			return nil, err
		}
		values[key] = torchName(t)
		delete(values, "quantization")
		delete(values, "quantization_config")
	}
	return files, j.setConfig(files, values)
}

// setConfig sets config.json to values, adapting the settings to the program that opens the layout.
func (j *conversion) setConfig(files map[string][]byte, values map[string]any) error {
	if j.o.Layout == MLX {
		j.respell(values)
	}
	j.sayAffine(values)
	return setJSON(files, checkpoint.ConfigName, values)
}

// respell renames settings in values to the names read by mlx-lm, which reads neither rope_parameters nor the names
// of the number of experts in transformers 5. It also states the settings that default differently in mlx-lm and
// transformers.
func (j *conversion) respell(values map[string]any) {
	for _, name := range append(models.CountsOfExperts(), "rope_parameters", "partial_rotary_factor") {
		delete(values, name)
	}
	values["rope_scaling"] = nil
	absent := map[string]any{ // values for absent settings that mlx-lm requires
		"first_k_dense_replace": 0, "mlp_only_layers": []int{}, "n_group": 1, "topk_group": 1, "n_shared_experts": nil, "q_lora_rank": nil,
		"partial_rotary_factor": json.Number("1.0"),
	}
	for _, name := range j.m.Family.MLX.Known() {
		if v, ok := absent[name]; ok {
			values[name] = v
		}
	}
	for _, s := range j.m.Settings {
		name := j.m.Family.Spelled(s.Name)
		if name == "" || s.Value == nil || strings.HasPrefix(name, "quantization_config.") { // these describe the elements of the source files
			continue
		}
		if _, ok := absent[name]; models.Absent(s.Value) && (ok || !j.states(name)) {
			continue
		}
		set(values, name, j.value(s.Value))
	}
	if values["intermediate_size"] == nil { // mlx-lm requires it even if no layer has a single network
		values["intermediate_size"] = values["moe_intermediate_size"]
	}
}

// states reports whether config.json must state that a setting has no value, because the family has a default for
// it. A member of an object needs no value if the object is present, except rope_type.
func (j *conversion) states(name string) bool {
	_, member, ok := strings.Cut(name, ".")
	return j.m.Family.Defaults[name] != nil && (!ok || member == "rope_type")
}

// value returns a setting's value for config.json.
func (j *conversion) value(v any) any {
	x, ok := v.(float64)
	if !ok {
		return v
	}
	bits := 64
	if j.c.Format == checkpoint.GGUF {
		bits = 32 // shortest text that gives the same 32-bit number
	}
	text := strconv.FormatFloat(x, 'g', -1, bits)
	if !strings.ContainsAny(text, ".e") { // transformers accepts no integer for a float
		text += ".0"
	}
	return json.Number(text)
}

// sayAffine declares MLX's affine quantisation in config.json, if matrices are quantised.
func (j *conversion) sayAffine(values map[string]any) {
	if q := j.o.Affine; q != (nn.Affine{}) {
		values["quantization"] = map[string]any{"bits": q.Bits, "group_size": q.GroupSize, "mode": checkpoint.AffineMode}
		values["quantization_config"] = values["quantization"] // as mlx-lm writes it
	}
}

// describeGGUF returns the files of a folder other than tensors for a GGUF source, by name.
func (j *conversion) describeGGUF() (map[string][]byte, error) {
	if _, ok := j.c.Config.Value("tokenizer.ggml.model"); !ok {
		return nil, fmt.Errorf("%s: the file has no tokenizer", j.c.Config.Path)
	}
	g, err := tokenizer.GGUFOf(j.c.Config.Value)
	if err != nil {
		return nil, err
	}
	files, err := g.Files()
	if err != nil {
		return nil, err
	}
	t, err := j.most()
	if err != nil {
		return nil, err
	}
	values := map[string]any{"model_type": j.m.Family.Name, "architectures": []string{className(j.m.Family.Name)}, "torch_dtype": torchName(t)}
	for _, s := range j.m.Settings {
		if s.Name == "" && !s.Usual {
			return nil, fmt.Errorf("%s: %s is %s, and %s has nothing for it", j.c.Config.Path, s.GGUF, quoted.Value(s.Value), checkpoint.ConfigName)
		}
		if s.Name == "" || s.Value == nil || models.Absent(s.Value) && !j.states(s.Name) {
			continue
		}
		if s.Name == "q_lora_rank" && models.Absent(s.Value) { // null for no rank, because an absent setting means 1536
			values[s.Name] = nil
			continue
		}
		set(values, s.Name, j.value(s.Value))
	}
	if g.BOS >= 0 {
		values["bos_token_id"] = g.BOS
	}
	tok, err := tokenizer.FromGGUF(g)
	if err != nil {
		return nil, err
	}
	ids := tok.Ends()
	values[keyEnd] = ids
	if len(ids) == 1 {
		values[keyEnd] = ids[0]
	} else if len(ids) == 0 {
		values[keyEnd] = nil
	}
	return files, j.setConfig(files, values)
}

// set sets a value by its name; dots lead into objects.
func set(values map[string]any, name string, v any) {
	first, rest, ok := strings.Cut(name, ".")
	if !ok {
		values[name] = v
		return
	}
	in, ok := values[first].(map[string]any)
	if !ok {
		in = map[string]any{}
		values[first] = in
	}
	set(in, rest, v)
}

// className returns the class name in transformers for a family: Qwen3MoeForCausalLM for qwen3_moe.
func className(family string) string {
	var b strings.Builder
	for _, part := range strings.Split(family, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String() + "ForCausalLM"
}

// torchName returns PyTorch's name of an element type.
func torchName(d graph.DType) string {
	switch d {
	case graph.F16:
		return "float16"
	case graph.BF16:
		return "bfloat16"
	}
	return "float32"
}

func setJSON(files map[string][]byte, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	files[name] = append(data, '\n')
	return err
}
