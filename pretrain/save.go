package pretrain

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/snapshot"
)

// save writes the model to a folder in the Hugging Face format, and returns the names of the files.
func (s *Settings) save(folder string, params []nn.Param, weights map[string]array.Array, src *source) ([]string, error) {
	var all []tensor.Source
	for _, p := range params {
		w := weights[p.Name]
		if models.Transposed(s.Model["model_type"].(string)) && strings.Contains(p.Name, "*") {
			read := func(name string, e int) (array.Array, error) {
				one := weights[name].Rows(e, e+1)
				return one.Reshape(one.Type.Shape[1:]...), nil
			}
			if one, ok := models.Transpose(p, w.Type.DType, read); ok {
				all = append(all, one)
			}
			continue
		}
		all = append(all, lm.Tensors(p.Name, w, false)...)
	}
	files, err := s.otherFiles(src)
	if err != nil {
		return nil, err
	}
	return lm.WriteModel(folder, all, s.config(), files)
}

// saved describes checkpoints as a model, for opening them.
func (s *Settings) saved(params []nn.Param, src *source) (*snapshot.Model, error) {
	files, err := s.otherFiles(src)
	if err != nil {
		return nil, err
	}
	return lm.SavedModel(params, func(param string) (string, bool) { return param, false }, s.config(), files)
}

// otherFiles returns the files of the model's folder other than tensors and config.json, by name.
func (s *Settings) otherFiles(src *source) (map[string][]byte, error) {
	if src.file != nil {
		return map[string][]byte{tokenizer.FileName: src.file}, nil
	}
	from := s.Data.Tokenizer
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		from = filepath.Dir(from)
	}
	return tokenizer.Files(from)
}

// config returns the entries of config.json.
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
