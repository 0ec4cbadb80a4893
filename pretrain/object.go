package pretrain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
)

// members are what an object of the file may have: by name, where a member's value goes.
type members map[string]any

// The kinds of values beside *string, *bool, []string and members.
type (
	integer struct {
		to    *int
		least int
	}
	seed   struct{ to *uint64 }
	number struct {
		to          *float64
		least, most float64
		above       bool // least itself is not allowed
	}
	choice struct {
		to *string
		of []string
	}
	object struct{ to *map[string]any } // read by somebody else
)

// file is a file of settings that is being read.
type file struct{ path string }

func (f file) wrong(at string, have []byte, want string) error {
	var short bytes.Buffer
	if json.Compact(&short, have) != nil {
		short.Reset()
		short.Write(have)
	}
	return fmt.Errorf("pretrain: %s: %s is %s, want %s", f.path, at, quoted.JSON(short.Bytes()), want)
}

// read reads the value of an object's member.
func (f file) read(at string, text json.RawMessage, to any) error {
	switch to := to.(type) {
	case members:
		return f.object(at, text, to)
	case integer:
		n, err := jsonInteger(text)
		if err != nil || n < int64(to.least) || n > math.MaxInt32 {
			return f.wrong(at, text, fmt.Sprintf("an integer from %d to %d", to.least, math.MaxInt32))
		}
		*to.to = int(n)
	case seed:
		if isNull(text) || json.Unmarshal(text, to.to) != nil {
			return f.wrong(at, text, "an integer of at least 0")
		}
	case number:
		var x float64
		if err := json.Unmarshal(text, &x); err != nil || isNull(text) || !(x >= to.least && x <= to.most) || to.above && x == to.least {
			want := fmt.Sprintf("a number from %g to %g", to.least, to.most)
			if to.above {
				want = fmt.Sprintf("a number above %g, and at most %g", to.least, to.most)
			}
			return f.wrong(at, text, want)
		}
		*to.to = x
	case choice:
		var x string
		if err := json.Unmarshal(text, &x); err != nil || isNull(text) || !slices.Contains(to.of, x) {
			return f.wrong(at, text, fmt.Sprintf("one of %q", to.of))
		}
		*to.to = x
	case *string:
		if isNull(text) || json.Unmarshal(text, to) != nil {
			return f.wrong(at, text, "a text")
		}
	case *bool:
		if isNull(text) || json.Unmarshal(text, to) != nil {
			return f.wrong(at, text, "true or false")
		}
	case *[]string:
		if isNull(text) || json.Unmarshal(text, to) != nil {
			return f.wrong(at, text, "a list of texts")
		}
	case object:
		all, err := f.split(at, text)
		if err != nil {
			return err
		}
		for name, text := range all {
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				return f.wrong(at+"."+name, text, "JSON")
			}
			(*to.to)[name] = v
		}
	}
	return nil
}

// object reads an object, of which no other members are allowed.
func (f file) object(at string, text json.RawMessage, of members) error {
	all, err := f.split(at, text)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		to, ok := of[name]
		if !ok {
			known := slices.Sorted(maps.Keys(of))
			return fmt.Errorf("pretrain: %s: there is no setting %s, want one of %s%s", f.path, quoted.Plain(path), strings.Join(known, " "), near.Names(name, slices.Values(known)))
		}
		if err := f.read(path, all[name], to); err != nil {
			return err
		}
	}
	return nil
}

// split returns the members of an object. It is an error if one stands there twice, and if something follows the object.
func (f file) split(at string, text json.RawMessage) (map[string]json.RawMessage, error) {
	if at == "" {
		at = "the file"
	}
	d := json.NewDecoder(bytes.NewReader(text))
	bad := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = errors.New("the object does not end")
		}
		return fmt.Errorf("pretrain: %s: %s: byte %d: %w", f.path, at, d.InputOffset(), err)
	}
	first, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("pretrain: %s: %s is empty, want an object, such as {}", f.path, at)
	}
	if err != nil {
		return nil, bad(err)
	}
	if first != json.Delim('{') {
		return nil, f.wrong(at, text, "an object, such as {}")
	}
	all := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, bad(err)
		}
		key := name.(string) // the decoder has no other in an object
		if _, ok := all[key]; ok {
			return nil, bad(fmt.Errorf("%s stands there twice", quoted.Text(key)))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, bad(err)
		}
		all[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, bad(err)
	}
	if d.More() {
		return nil, bad(fmt.Errorf("something follows the object"))
	}
	return all, nil
}

func isNull(text json.RawMessage) bool { return string(bytes.TrimSpace(text)) == "null" }

func jsonInteger(text json.RawMessage) (n int64, err error) {
	if isNull(text) {
		return 0, fmt.Errorf("null")
	}
	err = json.Unmarshal(text, &n)
	return n, err
}
