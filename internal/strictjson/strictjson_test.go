package strictjson

import (
	"bytes"
	v1 "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestTwice(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "\n%q: %d,", fmt.Sprint(i), i)
	}
	for _, c := range []struct {
		text        string
		any, differ string // the name that is there twice, and the one with different values
	}{
		{`null`, "", ""},
		{`"a"`, "", ""},
		{`{}`, "", ""},
		{`{"a": 1, "b": [1, {"a": 2}, {"a": 3}], "c": {"a": "a"}}`, "", ""},
		{`{"a": 1, "a": 2}`, "a", "a"},
		{`{"a": 1, "\u0061": 2}`, "a", "a"},
		{`{"a": "a", "A": "b"}`, "", ""},
		{`{"a": 1 , "a":1}`, "a", ""},
		{`{"a": {"x": [1, 2]}, "a":{"x":[1,2] }}`, "a", ""},
		{`{"a": {"x": 1}, "a": {"y": 1}}`, "a", "a"},
		{`{"a": {"x": 1}, "b": [[{"x": 1, "y": {}, "x": 2}]]}`, "x", "x"},
		{`{"a": "{\"b\": 1, \"b\": 2}", "\"": ":,{}", "\\": 1}`, "", ""},
		{`{"\"": 1, "\"": 2}`, `"`, `"`},
		{`{"a": 1, "a": 1, "a": 2}`, "a", "a"},
		{"{" + many.String() + `"7": 7, "99": 99}`, "7", ""},
		{"{" + many.String() + `"99": 99, "99": 1}`, "99", "99"},
		{"[{" + many.String() + `"x": 0}, {"99": 99, "x": {}, "99": null}]`, "99", "99"},
	} {
		for name, err := range map[string]error{c.any: UnmarshalOnce([]byte(c.text), new(any)), c.differ: Unmarshal([]byte(c.text), new(any))} {
			e, ok := errors.AsType[*Error](err)
			if ok != (name != "") || ok && (e.Err != jsontext.ErrDuplicateName || e.Path.LastToken() != name) {
				t.Errorf("%.100s: %v, want %q", c.text, err, name)
			}
		}
	}
}

// Errors say where, what is there and what is wanted, in the same words each time.
func TestErrors(t *testing.T) {
	type value struct {
		A struct {
			N []int32           `json:"n"`
			F map[string]uint16 `json:"f"`
		} `json:"a"`
		B bool    `json:"b"`
		S string  `json:"s"`
		X float32 `json:"x"`
		M merge   `json:"m"`

		O Ordered[Ordered[int8]] `json:"o"`
	}
	long := strings.Repeat("9", 1000)
	for text, want := range map[string]string{
		"":                                   "ends in the middle; is it complete?",
		`{"a": [`:                            "ends in the middle; is it complete?",
		"\ufeff{\"a\": {},\n\n\"a\": null}":  `line 3, column 1: "a" is there twice in one object; keep the one that is meant`,
		"{\"a\": {},\n \"b\": true,}":        "line 2, column 12: invalid character '}' at start of string (expecting '\"')",
		`{"b": tru}`:                         "column 10: invalid character '}' in literal true (expecting 'e')",
		`{} x`:                               "column 4: invalid character 'x' after top-level value",
		"{\"s\": \"\xff\"}":                  "column 8: not UTF-8",
		`{"a": {"n": [1, 2, "x"]}}`:          "a.n.2: string, want an integer of 32 bits",
		`{"a": {"n": [1, 2, 1.5]}}`:          "a.n.2: number 1.5, want an integer of 32 bits",
		`{"a": {"n": [1, 2, ` + long + `]}}`: "a.n.2: number " + long[:33] + "…, want an integer of 32 bits",
		`{"a": {"n": {}}}`:                   "a.n: object, want a list",
		`{"a": {"f": {"x": -1}}}`:            "a.f.x: number -1, want an integer of 16 bits that is at least 0",
		`{"a": []}`:                          "a: array, want an object",
		`{"b": "true"}`:                      "b: string, want true or false",
		`{"s": false}`:                       "s: bool, want a text",
		`{"x": 1e300}`:                       "x: number 1e300, want a number of 32 bits",
		`{"m": 3}`:                           "m: three",
		`[]`:                                 "array, want an object",
		`{"a": {"n": [1, null]}}`:            "a.n.1: null, want an integer of 32 bits",
		`{"a": {"n": null}, "s": null}`:      "",
		`{"o": {"x": {"y": 1000}}}`:          "o.x.y: number 1000, want an integer of 8 bits",
		`{"o": {"x": []}}`:                   "o.x: array, want an object",
		`{"o": {"x": null, "y": {"z": 1}}}`:  "",
		`{"c": 1, "` + long + `\u001b": {}}`: "",
	} {
		err := Unmarshal([]byte(text), new(value))
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%.40s: %s, want %s", text, got, want)
		}
	}
	err := UnmarshalKnown([]byte(`{"a": {"c\u001b": 1}}`), new(value))
	if e, ok := errors.AsType[*Error](err); !ok || e.Err != json.ErrUnknownName || e.Field() != "a.c\x1b" || e.Error() != `unknown field "a.c\x1b"` {
		t.Errorf("%v", err)
	}
}

type merge struct{}

func (*merge) UnmarshalJSON([]byte) error { return errors.New("three") }

// Names that are not strict are read as encoding/json reads them.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{`{"a":[{"b":"\"\\"}],"a":1}`, `[1,"{",{}, "\ud800", 1e400]`, `{"a":{"a":{}}, "b": {"a": 1, "a": 1}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var once, twice, want any
		once1, twice1, want1 := UnmarshalOnce(text, &once), Unmarshal(text, &twice), v1.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &want)
		if once1 == nil && twice1 != nil || twice1 == nil && want1 != nil {
			t.Fatalf("%q: %v, %v, %v", text, once1, twice1, want1)
		}
		if once1 == nil && !reflect.DeepEqual(once, want) || twice1 == nil && !reflect.DeepEqual(twice, want) {
			t.Fatalf("%q: %v, %v, %v", text, once, twice, want)
		}
		if e, ok := errors.AsType[*Error](twice1); ok && utf8.Valid(text) && (want1 == nil) != (e.Err == jsontext.ErrDuplicateName) {
			t.Fatalf("%q: %v, %v", text, twice1, want1)
		}
	})
}

// Names have the order of the text; one that is there twice has its first place.
func TestOrdered(t *testing.T) {
	var o Ordered[[]int]
	if err := Unmarshal([]byte(`{"b": [1], "a": null, "c": [], "b": [1]}`), &o); err != nil || !slices.Equal(o.Names, []string{"b", "a", "c"}) || len(o.Values) != 3 || !slices.Equal(o.Values["b"], []int{1}) {
		t.Errorf("%v, %v", o, err)
	}
}
