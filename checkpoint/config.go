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

// ConfigName is the name of the file describing a Hugging Face model.
const ConfigName = "config.json"

const maxConfig = 1 << 24

// Config holds a model's settings: the members of config.json, or the keys of a GGUF file. The zero Config is
// empty.
type Config struct {
	// Architecture is the model's family: model_type in config.json, general.architecture in a GGUF file; "" if there
	// is none.
	Architecture string
	// Path is the file with the settings, for errors.
	Path string

	values map[string]any
	prefix string // of keys specific to the architecture
}

// ReadConfig reads a config.json, or another file of settings such as generation_config.json. For a missing file it
// returns an empty Config and no error.
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

// NewConfig returns the Config of a config.json with the given members, as parsed by json.Unmarshal. path is for
// errors.
func NewConfig(path string, members map[string]any) Config {
	c := Config{Path: path, values: members}
	c.Architecture, _ = members["model_type"].(string)
	return c
}

// keys returns the Config of a GGUF file.
func keys(f *gguf.File) Config {
	c := Config{Path: f.Path(), values: map[string]any{}}
	for _, m := range f.Meta {
		c.values[m.Key] = m.Value
	}
	c.Architecture, _ = c.values["general.architecture"].(string)
	c.prefix = c.Architecture + "."
	return c
}

// Value returns the value of a key. For GGUF files, a leading dot stands for the architecture: .block_count is
// olmoe.block_count. For config.json, dots lead into objects: rope_scaling.factor.
func (c Config) Value(key string) (any, bool) {
	v, _ := c.lookup(key)
	return v, v != nil
}

// Has reports whether a key, in the form used by Value, is present, even if null.
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

// Keys returns the sorted keys with values: the members of config.json, or the architecture's keys of a GGUF file,
// each beginning with a dot.
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

// Object returns the value of a key as a Config; the result is false if the key is missing. It is an error if the
// value is not an object.
func (c Config) Object(key string) (Config, bool, error) {
	values, ok, err := as[map[string]any](c, key, "an object")
	return Config{Path: c.Path, values: values}, ok, err
}

// Int returns the value of a key as an integer; the result is false if the key is missing. It is an error if the
// value is not a non-negative integer.
func (c Config) Int(key string) (int, bool, error) {
	x, ok, err := c.Float(key)
	if err == nil && ok && (x != math.Trunc(x) || x < 0 || x > math.MaxInt32) {
		return 0, false, c.wrong(key, fmt.Sprintf("an integer from 0 to %d", math.MaxInt32))
	}
	return int(x), ok, err
}

// Float returns the value of a key as a number; the result is false if the key is missing. It is an error if the
// value is not a finite number.
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

// Bool returns the value of a key as a Boolean; ok is false if the key is missing. It is an error if the value is
// of another type.
func (c Config) Bool(key string) (value, ok bool, err error) {
	return as[bool](c, key, "true or false")
}

// Text returns the value of a key as text; the result is false if the key is missing. It is an error if the value
// is of another type.
func (c Config) Text(key string) (string, bool, error) { return as[string](c, key, "text") }

// as returns the value of a key as a T; the result is false if the key is missing.
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
	if x, ok := v.(string); ok { // a quoted number or Boolean looks like an unquoted one in errors
		if _, err := strconv.ParseFloat(x, 64); err == nil || x == "true" || x == "false" {
			want += ", without quotes"
		}
	}
	if strings.HasPrefix(key, ".") {
		key = c.prefix + key[1:]
	}
	return fmt.Errorf("%s: %s is %s, want %s", c.Path, key, quoted.Name(quoted.Value(v)), want)
}

// GGUF reports whether the settings come from a GGUF file.
func (c Config) GGUF() bool { return c.prefix != "" }

// IDs returns the token numbers of a key: a single one, a list, or none if the key is missing.
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
