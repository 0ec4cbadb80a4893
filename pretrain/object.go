package pretrain

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// members maps the permitted members of an object to the destinations of their values.
type members map[string]any

// Destinations other than enumeration, *uint64, *string, *bool, *[]string, *map[string]any and members.
type (
	integer struct {
		to    *int
		least int
	}
	number struct {
		to          *float64
		least, most float64
		above       bool // excludes least itself
	}
)

// enumeration is a quoted.OneOf.
type enumeration interface {
	Set(text string) error
	Names() []string
}

// file is a settings file being read.
type file struct{ path string }

func (f file) wrong(at string, have []byte, want string) error {
	if at == "" {
		at = "the file"
	}
	return fmt.Errorf("pretrain: %s: %s is %s, want %s", f.path, at, quoted.JSON(have), want)
}

// read parses the value of an object's member.
func (f file) read(at string, text json.RawMessage, to any) error {
	want := ""
	switch to := to.(type) {
	case members:
		return f.object(at, text, to)
	case integer:
		// 1e2 is an integer too: some writers of JSON have no other form.
		if x, ok := parse[float64](text); ok && x == math.Trunc(x) && x >= float64(to.least) && x <= math.MaxInt32 {
			*to.to = int(x)
			return nil
		}
		want = fmt.Sprintf("an integer from %d to %d", to.least, math.MaxInt32)
	case number:
		if x, ok := parse[float64](text); ok && x >= to.least && x <= to.most && !(to.above && x == to.least) {
			*to.to = x
			return nil
		}
		want = fmt.Sprintf("a number from %s to %s", quoted.Value(to.least), quoted.Value(to.most))
		if to.above {
			want = fmt.Sprintf("a number above %s, and at most %s", quoted.Value(to.least), quoted.Value(to.most))
		}
	case enumeration:
		if x, ok := parse[string](text); ok && to.Set(x) == nil {
			return nil
		}
		want = fmt.Sprintf("one of %s", strings.Trim(quoted.List(to.Names()), "[]"))
	case *uint64:
		want = set(to, text, "an integer of at least 0")
	case *string:
		want = set(to, text, "a text")
	case *bool:
		want = set(to, text, "true or false")
	case *time.Time:
		x, ok := parse[string](text)
		date, err := time.Parse(time.DateOnly, x)
		if !ok || err != nil {
			want = "a date, such as 2026-11-29"
		}
		*to = date
	case *[]string:
		want = set(to, text, "a list of texts")
	case *map[string]any:
		want = set(to, text, "an object, such as {}")
	}
	if want != "" {
		return f.wrong(at, text, want)
	}
	return nil
}

// set parses text into a value. It returns a description of valid values if that fails, else "".
func set[T any](to *T, text json.RawMessage, want string) string {
	x, ok := parse[T](text)
	if !ok {
		return want
	}
	*to = x
	return ""
}

// parse parses a value, which must not be null.
func parse[T any](text json.RawMessage) (x T, ok bool) {
	to := &x
	err := strictjson.UnmarshalOnce(text, &to)
	return x, err == nil && to != nil
}

// object parses an object; members other than those given are errors.
func (f file) object(at string, text json.RawMessage, of members) error {
	all, ok := parse[map[string]json.RawMessage](text)
	if !ok {
		return f.wrong(at, text, "an object, such as {}")
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
