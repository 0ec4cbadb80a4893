package strictjson

import (
	"encoding/json"
	"testing"
)

// Fields are read from members with exactly their names.
func TestExactNames(t *testing.T) {
	type inner struct {
		X int `json:"x"`
	}
	type outer struct {
		inner
		Text *string          `json:"text"`
		List []inner          `json:"list"`
		Map  map[string]inner `json:"map,omitempty"`
		To   *inner           `json:"to"`
		Raw  json.RawMessage  `json:"raw"`
		Any  any              `json:"any"`
		Skip int              `json:"-"`
	}
	for text, want := range map[string]string{
		`{"text": "a", "Text": "b", "TEXT": null, "\u0074eXt": "c"}`:                       `{"x":0,"text":"a","list":null,"to":null,"raw":null,"any":null}`,
		`{"List": [{"x": 1}], "list": [{"x": 1, "X": 2}, {"X": 3}]}`:                       `{"x":0,"text":null,"list":[{"x":1},{"x":0}],"to":null,"raw":null,"any":null}`,
		`{"map": {"X": {"X": 1, "x": 2}, "x": {"X": 3}}, "to": {"x": 4 , "X":{}}}`:         `{"x":0,"text":null,"list":null,"map":{"X":{"x":2},"x":{"x":0}},"to":{"x":4},"raw":null,"any":null}`,
		`{"raw": {"Text": 1}, "any": {"TEXT": 2, "X": 1}, "x": 5, "X": 6, "li\u017ft": 1}`: `{"x":5,"text":null,"list":null,"to":null,"raw":{"Text":1},"any":{"TEXT":2,"X":1}}`,
	} {
		var got outer
		if err := Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if have, err := json.Marshal(got); err != nil || string(have) != want {
			t.Errorf("%s: %s (%v), want %s", text, have, err, want)
		}
	}
}
