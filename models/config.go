package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
)

// reader reads what a model says about itself. After an error all further reads return zeros.
type reader struct {
	c    checkpoint.Config
	said []Setting
	err  error
}

// keys are the names of a setting in config.json and in GGUF files.
type keys [2]string

func (r *reader) key(k keys) string {
	if r.c.GGUF() {
		return k[1]
	}
	return k[0]
}

// size returns a setting that must be there, and be at least 1.
func (r *reader) size(k keys) int {
	n, ok, err := r.c.Int(r.key(k))
	if err == nil && !ok {
		err = fmt.Errorf("%s: %s is missing", r.c.Path, r.key(k))
	} else if err == nil && n < 1 {
		err = fmt.Errorf("%s: %s is 0, want at least 1", r.c.Path, r.key(k))
	}
	r.fail(err)
	r.say(k, n, false)
	return n
}

// sizeOr returns a setting, or another value if it is not there or 0.
func (r *reader) sizeOr(k keys, other int) int {
	n := or(r, k, r.c.Int, other)
	if n == 0 {
		n = other
	}
	r.say(k, n, n == other)
	return n
}

func (r *reader) numberOr(k keys, other float64) float64 { return or(r, k, r.c.Float, other) }

func (r *reader) flagOr(k keys, other bool) bool { return or(r, k, r.c.Bool, other) }

// or returns what get gets for a setting, or another value if the setting is not there.
func or[T comparable](r *reader, k keys, get func(string) (T, bool, error), other T) T {
	x, ok, err := get(r.key(k))
	if r.fail(err); !ok {
		x = other
	}
	r.say(k, x, x == other)
	return x
}

// list returns a setting that is a list of integers, nothing if it is not there.
func (r *reader) list(key string) []int {
	if r.c.GGUF() {
		return nil
	}
	v, ok := r.c.Value(key)
	if !ok {
		return nil
	}
	items, ok := v.([]any)
	var out []int
	for _, item := range items {
		x, number := item.(float64)
		ok = ok && number && x == float64(int(x))
		out = append(out, int(x))
	}
	if !ok {
		r.fail(fmt.Errorf("%s: %s is %q, want a list of integers", r.c.Path, key, fmt.Sprint(v)))
	}
	r.say(keys{key}, out, len(out) == 0)
	return out
}

// either returns the first of the names that is there, or the first of all.
func (r *reader) either(names ...keys) keys {
	for _, k := range names {
		if _, ok := r.c.Value(r.key(k)); ok && r.key(k) != "" {
			return k
		}
	}
	return names[0]
}

// only is an error if a setting is there and is not want: nothing that changes results is ignored.
func (r *reader) only(key, want string) {
	if want == "silu" { // the others are what a file that says nothing means
		r.say(keys{key}, want, true)
	}
	if r.c.GGUF() {
		return
	}
	v, ok := r.c.Value(key)
	if ok && fmt.Sprint(v) != want {
		r.fail(fmt.Errorf("%s: %s is %q, want %s: gomoe knows no other for this architecture", r.c.Path, key, fmt.Sprint(v), want))
	}
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
