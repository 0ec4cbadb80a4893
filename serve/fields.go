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
)

// parse sets the fields of a struct from the object that a request consists of. As in OpenAI's interface, names are those of the
// tags in the same case. A name that the struct lacks, or that is there twice, is a problem: it would change nothing.
func parse(text []byte, v any) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, which some editors write
	if !utf8.Valid(text) {
		return wrong("", "the request is not in UTF-8")
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		if err.Error() == "unexpected end of JSON input" {
			return wrong("", "the request is no complete JSON object")
		}
		return wrong("", "the request is not the JSON object that is wanted: "+err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // of any size
	if name, err := twice(d); err != nil {
		return wrong("", "the request is not the JSON object that is wanted: "+err.Error())
	} else if name != "" {
		return wrong(name, fmt.Sprintf("field %q is there twice", name))
	}
	return fill(text, reflect.ValueOf(v).Elem(), "")
}

// twice returns the first name that an object of a valid text has two times, "" if there is none.
func twice(d *json.Decoder) (string, error) {
	open, err := d.Token()
	if open != json.Delim('{') && open != json.Delim('[') {
		return "", err
	}
	names := map[json.Token]bool{}
	for d.More() {
		if open == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return "", err
			}
			if names[name] {
				return fmt.Sprint(name), nil
			}
			names[name] = true
		}
		if name, err := twice(d); name != "" || err != nil {
			return name, err
		}
	}
	_, err = d.Token()
	return "", err
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
			return wrong(full, fmt.Sprintf("unknown field %q", full))
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
		return wrong(field, fmt.Sprintf("%s: %s, want %s", what, other.Value, wanted(other.Type)))
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
