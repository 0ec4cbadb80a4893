// Package strictjson reads JSON from outside: files of settings, hostfiles, requests.
// Values are read like in encoding/json. Names are read strictly: a field is read from
// the member with exactly its name, and a duplicate name in an object is an error. A
// reader that silently takes the last of two members differs from a person editing the
// file. null changes no field, but in a list of numbers or texts it is an error, where
// encoding/json reads it as 0 or "".
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Error is the error of a text.
type Error struct {
	// Place is the position of invalid JSON or of a duplicate name: "line 3, column 7",
	// or only the column, in bytes, if the text has one line. It is "" at the end of a
	// text, and for errors of values, which have a path.
	Place string
	// Path leads to the name or the value; it is empty for the whole text.
	Path jsontext.Pointer
	// What describes the mistake, in less than 1 KiB and without control characters.
	What string
	// Err is jsontext.ErrDuplicateName, json.ErrUnknownName, io.ErrUnexpectedEOF for a
	// text ending too early, the error of an UnmarshalJSON, or another error of the JSON
	// packages.
	Err error
}

func (e *Error) Error() string {
	if e.Place == "" {
		return e.What
	}
	return e.Place + ": " + e.What
}

func (e *Error) Unwrap() error { return e.Err }

// Field returns the path as names and indices with dots between them.
func (e *Error) Field() string { return strings.Join(slices.Collect(e.Path.Tokens()), ".") }

// Unmarshal is json.Unmarshal with strict names, for files of settings. An object may have a name twice if both values are equal, up to white
// space. A byte order mark at the beginning, which some editors write, is skipped. A text that is not UTF-8 is an error. Errors have type
// *Error.
func Unmarshal(text []byte, v any) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	err := unmarshal(text, v)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		again := jsontext.AllowDuplicateNames(true)
		if err = equal(jsontext.NewDecoder(bytes.NewBuffer(text), options(), again), text); err == nil {
			err = unmarshal(text, v, again)
		}
	}
	return explain(err, text)
}

// UnmarshalOnce is Unmarshal with duplicate names as errors, whatever the values.
func UnmarshalOnce(text []byte, v any) error { return once(text, v) }

// UnmarshalKnown is UnmarshalOnce with names without a field as errors.
func UnmarshalKnown(text []byte, v any) error {
	return once(text, v, json.RejectUnknownMembers(true))
}

func once(text []byte, v any, more ...json.Options) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return explain(unmarshal(text, v, more...), text)
}

func unmarshal(text []byte, v any, more ...json.Options) error {
	if !utf8.Valid(text) {
		at := 0
		for r, n := utf8.DecodeRune(text); r != utf8.RuneError || n != 1; r, n = utf8.DecodeRune(text[at:]) {
			at += n
		}
		return &jsontext.SyntacticError{ByteOffset: int64(at), Err: errors.New("not UTF-8")}
	}
	return json.Unmarshal(text, v, append([]json.Options{options()}, more...)...)
}

// options read values like encoding/json. A text may escape half of a surrogate pair, as
// Python and JavaScript write it.
var options = sync.OnceValue(func() json.Options {
	return json.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false), json.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(false),
		json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(element[int]), json.UnmarshalFromFunc(element[int32]), json.UnmarshalFromFunc(element[float64]), json.UnmarshalFromFunc(element[string]))))
})

// element refuses null as an element of a list, leaving other values to the usual
// functions.
func element[T any](d *jsontext.Decoder, _ *T) error {
	if list, _ := d.StackIndex(d.StackDepth()); list == '[' && d.PeekKind() == 'n' {
		return &json.SemanticError{JSONKind: 'n'}
	}
	return errors.ErrUnsupported
}

// Ordered is an object with ordered names. null changes nothing.
type Ordered[V any] struct {
	Names  []string
	Values map[string]V
}

func (o *Ordered[V]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind == 'n' {
		return d.SkipValue()
	} else if kind != '{' {
		return &json.SemanticError{JSONKind: kind}
	}
	_, err := d.ReadToken()
	if o.Values == nil {
		o.Values = map[string]V{}
	}
	for err == nil && d.PeekKind() != '}' {
		var token jsontext.Token
		if token, err = d.ReadToken(); err != nil {
			break
		}
		var value V
		name := token.String()
		if err = json.UnmarshalDecode(d, &value); err != nil {
			break
		}
		if _, again := o.Values[name]; !again {
			o.Names = append(o.Names, name)
		}
		o.Values[name] = value
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// equal reads the next value of a text. It returns the first error of a duplicate name
// with different values.
func equal(d *jsontext.Decoder, text []byte) error {
	kind := d.PeekKind()
	if kind != '{' && kind != '[' {
		return d.SkipValue()
	}
	_, err := d.ReadToken()
	values := map[string]jsontext.Value{}
	for err == nil && d.PeekKind() != '}' && d.PeekKind() != ']' {
		if kind == '[' {
			err = equal(d, text)
			continue
		}
		between := text[d.InputOffset():]
		at := int64(len(text) - len(bytes.TrimLeft(between, ", \t\r\n")))
		var name jsontext.Token
		if name, err = d.ReadToken(); err != nil {
			break
		}
		key, pointer, end := name.String(), d.StackPointer(), d.InputOffset()
		if err = equal(d, text); err != nil {
			break
		}
		value := jsontext.Value(text[end:d.InputOffset()])
		if other, ok := values[key]; ok && !bytes.Equal(compact(other), compact(value)) {
			return &jsontext.SyntacticError{ByteOffset: at, JSONPointer: pointer, Err: jsontext.ErrDuplicateName}
		}
		values[key] = value
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// compact returns a value without white space and without the colon that may precede it.
func compact(v jsontext.Value) jsontext.Value {
	v = bytes.TrimLeft(v, ": \t\r\n")
	v = v.Clone()
	_ = v.Compact(options(), jsontext.AllowDuplicateNames(true)) // values that have been read are valid
	return v
}

// explain returns an error of the JSON packages as an *Error, with a text that, unlike
// theirs, is always the same.
func explain(err error, text []byte) error {
	if err == nil {
		return nil
	}
	if other := unmarshal(text, new(jsontext.Value), jsontext.AllowDuplicateNames(true)); other != nil {
		err = other // invalid JSON has no values
	}
	var syntax *jsontext.SyntacticError
	var value *json.SemanticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Error{What: "ends in the middle; is it complete?", Err: io.ErrUnexpectedEOF}
	case errors.As(err, &value):
		e := &Error{Path: value.JSONPointer, Err: value.Err}
		in := ""
		if e.Path != "" {
			in = quoted.Plain(e.Field()) + ": "
		}
		switch {
		case value.Err == json.ErrUnknownName:
			e.What = "unknown field " + quoted.Text(e.Field())
		case value.JSONKind != 0 && (value.Err == nil || value.Err == strconv.ErrRange || value.Err == strconv.ErrSyntax):
			e.What = fmt.Sprintf("%s%s, want %s", in, have(value), want(value.GoType))
		default:
			e.What = quoted.Cause(fmt.Errorf("%s%w", in, value.Err)).Error()
		}
		return e
	case errors.As(err, &syntax):
		e := &Error{Path: syntax.JSONPointer, What: syntax.Err.Error(), Err: syntax.Err}
		if syntax.Err == jsontext.ErrDuplicateName {
			e.What = quoted.Text(e.Path.LastToken()) + " is there twice in one object; keep the one that is meant"
		}
		before := text[:min(int(syntax.ByteOffset), len(text))]
		e.Place = fmt.Sprintf("column %d", len(before)-bytes.LastIndexByte(before, '\n'))
		if bytes.IndexByte(bytes.TrimSpace(text), '\n') >= 0 {
			e.Place = fmt.Sprintf("line %d, %s", 1+bytes.Count(before, []byte("\n")), e.Place)
		}
		return e
	}
	return &Error{What: quoted.Cause(err).Error(), Err: err}
}

// have describes the value found.
func have(e *json.SemanticError) string {
	switch e.JSONKind {
	case 'n', '"':
		return e.JSONKind.String()
	case 'f', 't':
		return "bool"
	case '[', ']':
		return "array"
	case '{', '}':
		return "object"
	}
	return quoted.Plain(strings.TrimSpace("number " + string(e.JSONValue)))
}

// want describes the values of a type.
func want(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("an integer of %d bits that is at least 0", t.Bits())
	case reflect.Float32, reflect.Float64:
		return fmt.Sprintf("a number of %d bits", t.Bits())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.String {
			return "a list of texts"
		}
		return "a list"
	}
	return "an object"
}
