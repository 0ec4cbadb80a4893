package members

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
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
		for name, err := range map[string]error{c.any: Rules{}.Check([]byte(c.text)), c.differ: Rules{Same: true}.Check([]byte(c.text))} {
			var twice *TwiceError
			if errors.As(err, &twice); (err != nil) != (name != "") || err != nil && twice.Name != name {
				t.Errorf("%.100s: %v, want %q", c.text, err, name)
			}
		}
	}
	err := Unmarshal([]byte("\ufeff{\"a\": 1,\n\n\"a\": 2}"), new(any))
	if want := `line 3: "a" is there twice in one object; keep the one that is meant`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	rules := Rules{Most: func(depth int) int { return 2 + depth }}
	for text, most := range map[string]int{`{"a": 1, "b": {"a": 1, "b": 1, "c": 1}}`: 0, `{"a": 1, "b": 1, "c": 1}`: 2, `[[{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}]]`: 4} {
		var many *ManyError
		if err := rules.Check([]byte(text)); (err != nil) != (most > 0) || errors.As(err, &many) && many.Most != most {
			t.Errorf("%s: %v, want a limit of %d", text, err, most)
		}
	}
}

// Valid texts are scanned to their end, and others are no matter of this package.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[{"b":"\"\\"}],"a":1}`, `[1,"{",{}]`, `{"a":{"a":{}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		any, differ := Rules{}.Check(text), Rules{Same: true}.Check(text)
		if differ != nil && any == nil {
			t.Errorf("%q: %v", text, differ)
		}
	})
}
