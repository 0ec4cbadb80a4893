package near

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	names := []string{"softmax", "top_k", "neg", "add", "sub", ""}
	for name, want := range map[string]string{
		"sofmax":                   "; did you mean softmax?",
		"topk":                     "; did you mean top_k?",
		"nge":                      "; did you mean neg?",
		"matmul":                   "",
		"":                         "",
		strings.Repeat("add", 100): "",
	} {
		if got := Names(name, slices.Values(names)); got != want {
			t.Errorf("%.20s: %q, want %q", name, got, want)
		}
	}
}
