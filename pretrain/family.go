package pretrain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/tokenizer"
)

// usual returns the default entries of config.json for a family: the sizes of moe_lm, and values for settings that
// transformers would otherwise set for a model of the published size. ok is false for families that gomoe does not
// write.
func usual(family string) (entries map[string]any, ok bool) {
	for _, f := range models.Families() {
		if f.Name != family || f.New == nil {
			continue
		}
		entries = map[string]any{
			"hidden_size": 128.0, "num_hidden_layers": 4.0, "num_attention_heads": 4.0, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
			"hidden_act": "silu", "tie_word_embeddings": false, "intermediate_size": 256.0,
		}
		if f.New["rope_parameters"] != nil {
			delete(entries, "rope_theta") // contained in the object
		}
		maps.Copy(entries, f.New)
		return entries, true
	}
	return nil, false
}

// written returns the families that gomoe writes.
func written() (names []string) {
	for _, f := range models.Families() {
		if f.New != nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// open completes the model's entries and returns the model. Unknown entries, and values that the family does not
// support, are errors.
func (s *Settings) open(tok *tokenizer.Tokenizer) (*models.Model, error) {
	at := s.Path + ": model"
	given, config := s.Model, map[string]any{}
	family := "mixtral"
	if v, ok := given["model_type"]; ok {
		if family, ok = v.(string); !ok {
			return nil, fmt.Errorf("pretrain: %s: model_type is %s, want one of %s", at, quoted.Value(v), strings.Join(written(), " "))
		}
	}
	of, ok := usual(family)
	if !ok {
		return nil, fmt.Errorf("pretrain: %s: model_type is %s, want one of %s%s", at, quoted.Text(family), strings.Join(written(), " "), near.Names(family, slices.Values(written())))
	}
	maps.Copy(config, of)
	config["model_type"], config["vocab_size"], config["max_position_embeddings"] = family, float64(tok.Size()), float64(s.Length)
	if _, ok := given["rope_parameters"]; ok {
		delete(config, "rope_theta") // contained in the object
	} else if theta, ok := given["rope_theta"]; ok && config["rope_parameters"] != nil {
		config["rope_parameters"] = map[string]any{"rope_type": "default", "rope_theta": theta}
		given = maps.Clone(given)
		delete(given, "rope_theta")
	}
	maps.Copy(config, given)
	if _, ok := given["num_key_value_heads"]; !ok {
		config["num_key_value_heads"] = config["num_attention_heads"]
	}
	for name, least := range map[string]int{"vocab_size": tok.Size(), "max_position_embeddings": s.Length} {
		if n, ok := config[name].(float64); ok && n < float64(least) {
			return nil, fmt.Errorf("pretrain: %s: %s is %s, want at least %d", at, name, quoted.Value(n), least)
		}
	}
	m, err := models.Open(&checkpoint.Checkpoint{Path: at, Format: checkpoint.Safetensors, Config: checkpoint.NewConfig(at, config)})
	if err != nil {
		return nil, fmt.Errorf("pretrain: %w", err)
	}
	if n := s.Mesh.Size("ep"); n > 1 && n > m.Experts {
		return nil, fmt.Errorf("pretrain: %s: mesh is %q and a layer has %d experts, want at most as many ranks along ep", s.Path, s.Mesh, m.Experts)
	}
	s.Model = complete(config, m, tok)
	return m, nil
}

// decimal formats a number with a point or an exponent, because transformers accepts no integer for a float.
func decimal(x float64) json.Number {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.Number(text)
}

// complete adds the family's defaults to config.json where entries are missing, because transformers may have
// different defaults.
func complete(config map[string]any, m *models.Model, tok *tokenizer.Tokenizer) map[string]any {
	config = maps.Clone(config)
	for _, said := range m.Settings {
		given, ok := config[said.Name]
		if said.Name == "" || strings.Contains(said.Name, ".") {
			continue
		}
		switch v := said.Value.(type) {
		case float64:
			if v != 0 && (!ok || given != nil) {
				config[said.Name] = decimal(v)
			}
		case int:
			if v != 0 && !ok {
				config[said.Name] = v
			}
		case bool, string:
			if !ok {
				config[said.Name] = v
			}
		}
	}
	special := tok.Special()
	for name, id := range map[string]int32{"bos_token_id": special.BOS, "eos_token_id": special.EOS, "pad_token_id": special.Pad} {
		if _, ok := config[name]; ok {
			continue
		}
		if config[name] = nil; id >= 0 {
			config[name] = int(id)
		}
	}
	return config
}
