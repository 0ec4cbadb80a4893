package quoted

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ text, quoted, plain string }{
		{"", `""`, ""},
		{"dp=2", `"dp=2"`, "dp=2"},
		{`a "b"`, `"a \"b\""`, `"a \"b\""`},
		{"\x1b[31mX\a", `"\x1b[31mX\a"`, `"\x1b[31mX\a"`},
		{"a\nb", `"a\nb"`, `"a\nb"`},
		{"\u202ea", `"\u202ea"`, `"\u202ea"`},
		{"a\xffb", `"a\xffb"`, `"a\xffb"`},
		{strings.Repeat("a", 40), `"` + strings.Repeat("a", 40) + `"`, strings.Repeat("a", 40)},
		{strings.Repeat("ä", 40) + "b", `"` + strings.Repeat("ä", 40) + `"…`, strings.Repeat("ä", 40) + "…"},
		{strings.Repeat("9", 1<<20), `"` + strings.Repeat("9", 40) + `"…`, strings.Repeat("9", 40) + "…"},
		{strings.Repeat("\xff", 1000), `"` + strings.Repeat(`\xff`, 40) + `"…`, `"` + strings.Repeat(`\xff`, 40) + `"…`},
		{strings.Repeat("𝄞", 1000), `"` + strings.Repeat("𝄞", 40) + `"…`, strings.Repeat("𝄞", 40) + "…"},
	} {
		if got := Text(c.text); got != c.quoted {
			t.Errorf("Text(%.20q) = %s, want %s", c.text, got, c.quoted)
		}
		if got := Text([]byte(c.text)); got != c.quoted {
			t.Errorf("Text of the bytes %.20q = %s, want %s", c.text, got, c.quoted)
		}
		if got := Plain(c.text); got != c.plain {
			t.Errorf("Plain(%.20q) = %s, want %s", c.text, got, c.plain)
		}
	}
	if got, want := List([]string{"a", "\x1b"}), `["a", "\x1b"]`; got != want {
		t.Errorf("List = %s, want %s", got, want)
	}
	if got, want := List(make([]string, 10)), `["", "", "", "", "", "", "", "" and 2 more]`; got != want {
		t.Errorf("List = %s, want %s", got, want)
	}
}

func TestMessage(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\n\tc …": "a: b\n\tc …",
		"open \x1b[31mX\a: no such file\r\x00\xff\u202e\u009b": `open \x1b[31mX\a: no such file\r\x00\xff\u202e\u009b`,
		strings.Repeat("ä", longest/2):                         strings.Repeat("ä", longest/2),
	} {
		if got := Message(text); got != want {
			t.Errorf("Message(%q) = %q, want %q", text, got, want)
		}
	}
	got := Message("begin" + strings.Repeat("ä", 1<<20) + "end")
	if len(got) > longest+100 || !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "end") || !strings.Contains(got, " bytes left out ") {
		t.Errorf("a long message becomes %d bytes: %.20q…", len(got), got)
	}
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{1e7, "10000000"}, {-1e6, "-1000000"}, {1e-5, "1e-05"}, {0.5, "0.5"}, {1e300, "1e+300"}, {10000000, "10000000"},
		{[]any{1e7, "a", []any{2e6}}, "[10000000 a [2000000]]"}, {map[string]any{"a": 1e7, "b": nil}, "map[a:10000000 b:<nil>]"},
		{nil, "<nil>"}, {true, "true"}, {"1e+07", "1e+07"},
	} {
		if got := Value(c.value); got != c.want {
			t.Errorf("Value(%v) = %s, want %s", c.value, got, c.want)
		}
	}
}

// Errors for users of a program name scopes instead of lines of Go, in every position.
func TestScoped(t *testing.T) {
	for text, want := range map[string]string{
		"generate: decoder.go:121 (model.layers.0): all_sum: rank 1 ended; seen by rank 0 in all_sum #0 u32 256 bytes (decoder.go:121 (model.layers.0))": "generate: model.layers.0: all_sum: rank 1 ended; seen by rank 0 in all_sum #0 u32 256 bytes (model.layers.0)",
		"decoder.go:9: mul: rank 1 ended; seen by rank 0 in barrier #3 (decoder.go:121)":                                                                 "mul: rank 1 ended; seen by rank 0 in barrier #3",
		"p.graph:4 (layers.3): add: shapes": "p.graph:4 (layers.3): add: shapes",
	} {
		if got := Scoped(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
