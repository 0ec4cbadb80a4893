package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// ConfigName is the name of the file that describes a model of Hugging Face.
const ConfigName = "config.json"

const maxConfig = 1 << 24

// Config is what a model says about itself: the members of config.json, or the keys of a GGUF file. The zero
// Config says nothing.
type Config struct {
	// Architecture is the model's family: model_type of config.json, general.architecture of a GGUF file. It
	// is empty if there is none.
	Architecture string
	// Path is the file that says it, for errors.
	Path string

	values map[string]any
	prefix string // of the keys about the architecture
}

// ReadConfig reads a config.json, or another file of settings such as generation_config.json. A file that is not there says
// nothing, which is no error.
func ReadConfig(path string) (Config, error) {
	text, err := infile.Read(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{Path: path}, nil
	} else if err != nil {
		return Config{}, err
	}
	c := Config{Path: path}
	if err := strictjson.Unmarshal(text, &c.values); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	c.Architecture, _ = c.values["model_type"].(string)
	return c, nil
}

// NewConfig returns the Config that a config.json with these members gives, as json.Unmarshal reads them. path is for errors.
func NewConfig(path string, members map[string]any) Config {
	c := Config{Path: path, values: members}
	c.Architecture, _ = members["model_type"].(string)
	return c
}

// keys returns what the keys of a GGUF file say.
func keys(f *gguf.File) Config {
	c := Config{Path: f.Path(), values: map[string]any{}}
	for _, m := range f.Meta {
		c.values[m.Key] = m.Value
	}
	c.Architecture, _ = c.values["general.architecture"].(string)
	c.prefix = c.Architecture + "."
	return c
}

// Value returns the value of a key. A key of a GGUF file that begins with a dot is one of the architecture: .block_count
// is olmoe.block_count. A key with dots of a config.json leads into objects: rope_scaling.factor.
func (c Config) Value(key string) (any, bool) {
	v, _ := c.lookup(key)
	return v, v != nil
}

// Has reports whether a key is there, null included. Keys are those of Value.
func (c Config) Has(key string) bool {
	_, ok := c.lookup(key)
	return ok
}

func (c Config) lookup(key string) (v any, ok bool) {
	if strings.HasPrefix(key, ".") {
		key = c.prefix + key[1:]
	}
	if v, ok := c.values[key]; ok {
		return v, true
	}
	in := c.values
	for {
		first, rest, ok := strings.Cut(key, ".")
		if !ok {
			v, ok := in[key]
			return v, ok
		}
		if in, ok = in[first].(map[string]any); !ok {
			return nil, false
		}
		key = rest
	}
}

// Keys returns the keys that have values, sorted: the members of config.json, or the keys of a GGUF file that are about
// the architecture, each with a dot at its beginning.
func (c Config) Keys() []string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(c.values)) {
		if c.values[k] == nil || !strings.HasPrefix(k, c.prefix) {
			continue
		}
		if c.GGUF() {
			k = k[len(c.prefix)-1:]
		}
		keys = append(keys, k)
	}
	return keys
}

// Object returns the members of a key's value as settings of their own, false if there is no such key. It is an error if
// the value is no object.
func (c Config) Object(key string) (Config, bool, error) {
	values, ok, err := as[map[string]any](c, key, "an object")
	return Config{Path: c.Path, values: values}, ok, err
}

// Int returns the value of a key as an integer, false if there is no such key. It is an error if the value is no integer
// of at least 0.
func (c Config) Int(key string) (int, bool, error) {
	x, ok, err := c.Float(key)
	if err == nil && ok && (x != math.Trunc(x) || x < 0 || x > math.MaxInt32) {
		return 0, false, c.wrong(key, fmt.Sprintf("an integer from 0 to %d", math.MaxInt32))
	}
	return int(x), ok, err
}

// Float returns the value of a key as a number, false if there is no such key. It is an error if the value is no finite number.
func (c Config) Float(key string) (float64, bool, error) {
	v, ok := c.Value(key)
	if !ok {
		return 0, false, nil
	}
	x := math.NaN()
	switch v := v.(type) {
	case float64:
		x = v
	case float32:
		x = float64(v)
	case uint8:
		x = float64(v)
	case int8:
		x = float64(v)
	case uint16:
		x = float64(v)
	case int16:
		x = float64(v)
	case uint32:
		x = float64(v)
	case int32:
		x = float64(v)
	case uint64:
		x = float64(v)
	case int64:
		x = float64(v)
	}
	if want := "a number"; math.IsNaN(x) || math.IsInf(x, 0) {
		if _, ok := v.(string); !ok {
			want = "a finite number"
		}
		return 0, false, c.wrong(key, want)
	}
	return x, true, nil
}

// Bool returns the value of a key as true or false; ok is false if there is no such key. It is an error if the value is neither.
func (c Config) Bool(key string) (value, ok bool, err error) {
	return as[bool](c, key, "true or false")
}

// Text returns the value of a key as text, false if there is no such key. It is an error if the value is none.
func (c Config) Text(key string) (string, bool, error) { return as[string](c, key, "text") }

// as returns the value of a key as a T, false if there is no such key.
func as[T any](c Config, key, want string) (x T, ok bool, err error) {
	v, ok := c.Value(key)
	if !ok {
		return x, false, nil
	}
	if x, ok = v.(T); !ok {
		return x, false, c.wrong(key, want)
	}
	return x, true, nil
}

func (c Config) wrong(key, want string) error {
	v, _ := c.Value(key)
	text := fmt.Sprint(v)
	switch x := v.(type) {
	case float64:
		if x == math.Trunc(x) {
			text = strconv.FormatFloat(x, 'f', -1, 64) // as people write it
		}
	case string: // which looks in errors as a number does
		if _, err := strconv.ParseFloat(x, 64); err == nil || x == "true" || x == "false" {
			want += ", without quotes"
		}
	}
	if strings.HasPrefix(key, ".") {
		key = c.prefix + key[1:]
	}
	return fmt.Errorf("%s: %s is %s, want %s", c.Path, key, quoted.Name(text), want)
}

// GGUF reports whether the keys are those of a GGUF file.
func (c Config) GGUF() bool { return c.prefix != "" }

// IDs returns the tokens that a key names: one, a list of them, or none if there is no such key.
func (c Config) IDs(key string) (map[int32]bool, error) {
	ids := map[int32]bool{}
	v, ok := c.Value(key)
	if !ok {
		return ids, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		x, ok := v.(float64)
		if !ok || x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
			return nil, c.wrong(key, "the id of a token, or a list of them")
		}
		ids[int32(x)] = true
	}
	return ids, nil
}
