package pretrain

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/tokenizer"
)

// save writes the model to a folder in the form of Hugging Face, and returns the names of the files.
func (s *Settings) save(folder string, params []nn.Param, weights map[string]array.Array, src *source) ([]string, error) {
	var all []tensor.Source
	for _, p := range params {
		w := weights[p.Name]
		if !strings.Contains(p.Name, "*") {
			all = append(all, tensor.Of(p.Name, w))
			continue
		}
		if s.Model["model_type"] == "gpt_oss" {
			if one, ok := fuse(p.Name, w, func(name string) array.Array { return weights[name] }); ok {
				all = append(all, one)
			}
			continue
		}
		for e := range p.Type.Shape[0] {
			one := w.Rows(e, e+1).Reshape(p.Type.Shape[1:]...)
			all = append(all, tensor.Of(strings.Replace(p.Name, "*", strconv.Itoa(e), 1), one))
		}
	}
	if err := safetensors.Write(filepath.Join(folder, safetensors.FileName), map[string]string{"format": "pt"}, all); err != nil {
		return nil, err
	}
	config := s.config()
	files := map[string][]byte{tokenizer.FileName: src.file}
	var err error
	if files[checkpoint.ConfigName], err = json.MarshalIndent(config, "", "  "); err != nil {
		return nil, err
	}
	names := []string{safetensors.FileName, checkpoint.ConfigName}
	if src.file != nil {
		names = append(names, tokenizer.FileName)
	} else {
		delete(files, tokenizer.FileName)
		from := s.Data.Tokenizer
		if info, err := os.Stat(from); err != nil || !info.IsDir() {
			from = filepath.Dir(from)
		}
		for _, name := range []string{tokenizer.FileName, "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return nil, err
			}
			files[name], names = text, append(names, name)
		}
	}
	for _, name := range names[1:] {
		err := whole.Write(filepath.Join(folder, name), func(w io.Writer) error { _, err := w.Write(files[name]); return err })
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// config returns the members of config.json.
func (s *Settings) config() map[string]any {
	config := map[string]any{"torch_dtype": "float32"}
	if s.DType == graph.BF16 && !s.Masters {
		config["torch_dtype"] = "bfloat16"
	}
	for name, v := range s.Model {
		config[name] = v
	}
	var class strings.Builder
	for part := range strings.SplitSeq(s.Model["model_type"].(string), "_") {
		class.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	config["architectures"] = []string{class.String() + "ForCausalLM"}
	return config
}
