package near

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	names := []string{"softmax", "top_k", "neg", "add", "sub", "mlp.experts.0.up", ""}
	for name, want := range map[string]string{
		"sofmax":                   "; did you mean softmax?",
		"topk":                     "; did you mean top_k?",
		"nge":                      "; did you mean neg?",
		"matmul":                   "",
		"mlp.expert.*":             "; did you mean mlp.experts.0.up?",
		"*.exprets.*.up":           "; did you mean mlp.experts.0.up?",
		"mlp.*.down":               "",
		"*.up.weight":              "",
		"x*":                       "",
		"sotf*":                    "; did you mean softmax?",
		"":                         "",
		strings.Repeat("add", 100): "",
	} {
		if got := Names(name, slices.Values(names)); got != want {
			t.Errorf("%.20s: %q, want %q", name, got, want)
		}
	}
}
