package models

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Reader reads a model's settings and records which ones were read. After an error, all further reads return zeros.
type Reader struct {
	files  *checkpoint.Checkpoint
	c      checkpoint.Config
	read   map[string]bool // settings requested by the family
	family Family
	said   []Setting // the settings found
	// fractions is set if YaRN's range of pairs begins and ends between two pairs, which GGUF files do not state.
	fractions bool
	factors   []float32 // of the position frequencies; nil if numbers suffice to describe them in GGUF files
	err       error
}

func newReader(c *checkpoint.Checkpoint, f Family) *Reader {
	return &Reader{files: c, c: c.Config, read: map[string]bool{}, family: f}
}

// GGUF reports whether the settings are those of a GGUF file.
func (r *Reader) GGUF() bool { return r.c.GGUF() }

// Keys are a setting's names in config.json and in GGUF files.
type Keys [2]string

func (r *Reader) key(k Keys) string {
	key := k[0]
	if r.c.GGUF() {
		key = k[1]
	}
	r.read[key] = true
	return key
}

// Size returns a required setting of at least 1.
func (r *Reader) Size(k Keys) int {
	n, ok, err := r.c.Int(r.key(k))
	if d, is := r.fallback(k).(int); is {
		n, ok = d, true
	}
	if err == nil && !ok {
		err = fmt.Errorf("%s: %s is missing", r.c.Path, r.named(r.key(k)))
	} else if err == nil && n < 1 {
		err = fmt.Errorf("%s: %s is 0, want at least 1", r.c.Path, r.named(r.key(k)))
	}
	r.Fail(err)
	r.Say(k, n, false)
	return n
}

// SizeOr returns a setting, or other if it is missing or 0.
func (r *Reader) SizeOr(k Keys, other int) int {
	n := or(r, k, r.c.Int, other)
	if n == 0 {
		n = other
	}
	r.Say(k, n, n == other)
	return n
}

// NumberOr returns a number, or other if it is missing.
func (r *Reader) NumberOr(k Keys, other float64) float64 { return or(r, k, r.c.Float, other) }

// FlagOr returns a Boolean setting. Like transformers, it takes an explicit null as false.
func (r *Reader) FlagOr(k Keys, other bool) bool {
	if key := r.key(k); !r.c.GGUF() && key != "" && r.c.Has(key) {
		if _, ok := r.c.Value(key); !ok {
			r.Say(k, false, !other)
			return false
		}
	}
	return or(r, k, r.c.Bool, other)
}

// FlagOrTensor returns a setting of config.json, or other if it is missing. In GGUF files the presence of a tensor
// sets it.
func (r *Reader) FlagOrTensor(key string, other bool, tensor string) bool {
	x := false
	if r.c.GGUF() {
		_, err := r.files.Tensor(tensor)
		x = err == nil
	} else {
		x = r.FlagOr(Keys{key}, other)
	}
	r.Say(Keys{key}, x, true)
	return x
}

// TextOr returns a text, or other if it is missing.
func (r *Reader) TextOr(k Keys, other string) string { return or(r, k, r.c.Text, other) }

// or returns a setting using get. If config.json lacks the setting, or returns the family's default. Without a
// default, or if the setting is null, it returns other. For GGUF files it always falls back to other.
func or[T comparable](r *Reader, k Keys, get func(string) (T, bool, error), other T) T {
	x, ok, err := get(r.key(k))
	if d, is := r.fallback(k).(T); is {
		other = d
	}
	if r.Fail(err); !ok {
		x = other
	}
	r.Say(k, x, x == other)
	return x
}

// fallback returns the family's default for a setting missing from config.json; nil if it is present or has no
// default. Members of an object have defaults only if the whole object is missing, null or empty.
func (r *Reader) fallback(k Keys) any {
	if r.c.GGUF() {
		return nil
	}
	if object, _, member := strings.Cut(k[0], "."); member {
		if v, _ := r.c.Value(object); !states(v) {
			return r.family.Defaults[k[0]]
		}
		return nil
	}
	if r.c.Has(k[0]) {
		return nil
	}
	return r.family.Defaults[k[0]]
}

// list returns a setting of config.json that is a list of integers or of texts, or nil if it is missing.
func list[T int | string](r *Reader, key, want string) []T {
	if r.c.GGUF() {
		return nil
	}
	v, ok := r.c.Value(r.key(Keys{key}))
	if !ok {
		return nil
	}
	items, ok := v.([]any)
	var out []T
	for _, item := range items {
		if x, number := item.(float64); number && x == float64(int(x)) {
			item = int(x)
		}
		x, is := item.(T)
		ok = ok && is
		out = append(out, x)
	}
	if !ok {
		r.Fail(fmt.Errorf("%s: %s is %s, want a list of %s", r.c.Path, key, quoted.Name(quoted.Value(v)), want))
	}
	r.Say(Keys{key}, out, len(out) == 0)
	return out
}

// Either returns the first of a setting's names that is present, or the first name if none is. It is an error if
// config.json has several of them with different values.
func (r *Reader) Either(names ...Keys) Keys {
	found := names[0]
	var first any
	for _, k := range names {
		v, ok := r.c.Value(r.key(k))
		switch {
		case !ok || r.key(k) == "":
		case first == nil:
			found, first = k, v
		case !r.c.GGUF() && !reflect.DeepEqual(v, first):
			r.Fail(fmt.Errorf("%s: %s is %s and %s is %s, which name the same setting; take one of them out", r.c.Path, r.key(found), quoted.Value(first), r.key(k), quoted.Value(v)))
		}
	}
	return found
}

// Experts returns the number of experts per layer. transformers maps other names of it to the family's.
func (r *Reader) Experts() int {
	const gguf = ".expert_count"
	names := []Keys{{r.family.Experts, gguf}}
	for _, name := range CountsOfExperts() {
		names = append(names, Keys{name, gguf})
	}
	return r.Size(r.Either(names...))
}

// Only fails if a setting is present with a value other than those in want, so that nothing affecting results is
// ignored.
func (r *Reader) Only(k Keys, want ...string) {
	v, ok := r.c.Value(r.key(k))
	if ok && r.key(k) != "" && !slices.Contains(want, quoted.Value(v)) {
		r.Fail(fmt.Errorf("%s: %s is %s, want %s: gomoe knows no other for this architecture", r.c.Path, r.named(r.key(k)), quoted.Name(quoted.Value(v)), strings.Join(want, " or ")))
	}
}

// named returns a key as spelled in the file: keys of GGUF files begin with the architecture.
func (r *Reader) named(key string) string {
	if strings.HasPrefix(key, ".") {
		return r.c.Architecture + key
	}
	return key
}

// Fail records an error about the files; the first one is returned by Decoder.Model.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// done returns the first error, or an error if a setting that may affect results was not read.
func (r *Reader) done() error {
	if r.err != nil {
		return r.err
	}
	if err := r.quantized(); err != nil {
		return err
	}
	for _, key := range r.c.Keys() {
		v, _ := r.c.Value(key)
		want, neutral := neutral()[key]
		switch {
		case r.read[key], harmless(key), key == "layer_types" && r.fullEverywhere():
		case neutral:
			r.Only(Keys{key, key}, want)
		case states(v):
			r.Fail(fmt.Errorf("%s: setting %s is not known for architecture %s and may change results; take it out of the file if it does not", r.c.Path, quoted.JSON([]byte(r.named(key))), quoted.Name(r.c.Architecture)))
		}
	}
	return r.err
}
