package members

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// ExactNames returns the text of a JSON value for encoding/json to read into v. encoding/json also accepts a field's name in another case,
// so that "Text" would replace the value of "text". In the returned text such names are overwritten by a name that no field has. All
// offsets stay as they are. Values of types with an UnmarshalJSON are left alone, and so is a text that is not valid JSON.
func ExactNames(text []byte, v any) []byte {
	e := exact{text: text}
	e.value(text, 0, reflect.TypeOf(v))
	return e.text
}

type exact struct {
	text   []byte
	copied bool
}

// value looks at a value that begins at a byte of the text and is read into a type.
func (e *exact) value(raw []byte, at int, t reflect.Type) {
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	for t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) || !nested(t) {
		return
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return
	}
	fields := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	for d.More() {
		var of reflect.Type
		if open == json.Delim('{') {
			from := int(d.InputOffset())
			token, err := d.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return
			}
			to := int(d.InputOffset())
			if t.Kind() == reflect.Map {
				of = t.Elem()
			} else if of, ok = fields[name]; !ok && similar(fields, name) {
				from += bytes.IndexByte(raw[from:], '"')
				e.hide(at+from+1, at+to-1)
			}
		} else if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			of = t.Elem()
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return
		}
		if of != nil {
			e.value(value, at+int(d.InputOffset())-len(value), of)
		}
	}
}

// nested reports whether a value of a type can hold an object that is read into a struct.
func nested(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return true
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return nested(t.Elem())
	}
	return false
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && !(f.Anonymous && f.Tag.Get("json") == "") {
			fields[name] = f.Type
		}
	}
	return fields
}

func similar(fields map[string]reflect.Type, name string) bool {
	for f := range fields {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return false
}

// hide overwrites a part of the text by characters that no name has.
func (e *exact) hide(from, to int) {
	if !e.copied {
		e.text, e.copied = slices.Clone(e.text), true
	}
	for i := from; i < to; i++ {
		e.text[i] = 0x7f
	}
}
