package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/members"
	"github.com/gomoe/gomoe/internal/quoted"
)

// parse sets the fields of a struct from the object that a request consists of. As in OpenAI's interface, names are those of the
// tags in the same case. A name that the struct lacks, or that is there twice, is a problem: it would change nothing.
func parse(text []byte, v any) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, which some editors write
	if !utf8.Valid(text) {
		return wrong("", "the request is not in UTF-8")
	}
	if !json.Valid(text) {
		err := json.Unmarshal(text, new(json.RawMessage))
		if err.Error() == "unexpected end of JSON input" {
			return wrong("", "the request is no complete JSON object")
		}
		return wrong("", "the request is not the JSON object that is wanted: "+err.Error())
	}
	if err := names(text); err != nil {
		return err
	}
	return fill(text, reflect.ValueOf(v).Elem(), "")
}

const (
	maxFields = 128     // of a request
	maxNames  = 1 << 18 // of an object in a request, as many as the largest vocabularies have tokens
)

// names returns a problem if an object of a valid text has a name twice, or too many names.
func names(text []byte) error {
	most := func(depth int) int {
		if depth == 0 {
			return maxFields
		}
		return maxNames
	}
	err := members.Rules{Most: most}.Check(text)
	var twice *members.TwiceError
	var many *members.ManyError
	switch {
	case errors.As(err, &twice):
		return wrong(quoted.Short(twice.Name), fmt.Sprintf("field %s is there twice", quoted.Text(twice.Name)))
	case errors.As(err, &many):
		return wrong("", fmt.Sprintf("an object of the request has more than %d fields, want fewer", many.Most))
	case err != nil:
		return wrong("", err.Error())
	}
	return nil
}

// fill sets a field, whose name is path, from its text.
func fill(text json.RawMessage, v reflect.Value, path string) error {
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
		if string(text) == "null" {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return mistake(json.Unmarshal(text, v.Addr().Interface()), path)
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return mistake(err, path)
	}
	fields := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("json"); name != "" {
			fields[name] = v.FieldByIndex(f.Index)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		full := name
		if path != "" {
			full = path + "." + name
		}
		field, ok := fields[name]
		if !ok {
			return wrong(quoted.Short(full), fmt.Sprintf("unknown field %s", quoted.Text(full)))
		}
		if err := fill(values[name], field, full); err != nil {
			return err
		}
	}
	return nil
}

// mistake returns what is wrong with the value of a field, nil if nothing is.
func mistake(err error, field string) error {
	if err == nil {
		return nil
	}
	what := field
	if what == "" {
		what = "the request"
	}
	if other := (*json.UnmarshalTypeError)(nil); errors.As(err, &other) {
		return wrong(field, fmt.Sprintf("%s: %s, want %s", what, quoted.Plain(other.Value), wanted(other.Type)))
	}
	return wrong(field, what+": "+err.Error())
}

// wanted says which values a type has.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Float64:
		return "a number of 64 bits"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
