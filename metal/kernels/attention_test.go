package kernels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/kernels"
)

// TestAttention compares attention and its gradient for sequences that do and do not fill
// tiles, heads of both tiles, heads that share keys, and scores of all pairs.
func TestAttention(t *testing.T) {
	for _, c := range []struct {
		d             string
		s, n, m, wide int
		params        string
	}{
		{"f32", 1, 1, 1, 8, ""},
		{"f32", 33, 2, 1, 5, ""},
		{"f32", 32, 2, 2, 64, ""},
		{"f32", 71, 3, 1, 16, "full=true scale=0.3"},
		{"f32", 19, 2, 2, 100, ""},
		{"f32", 34, 1, 1, 128, "full=true"},
		{"bf16", 41, 4, 2, 24, ""},
		{"f16", 41, 2, 1, 72, ""},
	} {
		name := fmt.Sprintf("%s s=%d n=%d m=%d d=%d %s", c.d, c.s, c.n, c.m, c.wide, c.params)
		t.Run(strings.ReplaceAll(name, " ", ","), func(t *testing.T) {
			p := &program{}
			wide := "f32"
			q, k := fmt.Sprintf("%s[2,%d,%d,%d]", c.d, c.s, c.n, c.wide), fmt.Sprintf("%s[2,%d,%d,%d]", c.d, c.s, c.m, c.wide)
			p.input("q", q)
			p.input("k", k)
			p.input("v", k)
			p.input("dout", q)
			p.input("dlse", fmt.Sprintf("%s[2,%d,%d]", wide, c.n, c.s))
			p.body = append(p.body, "out, lse = attention(q, k, v) "+c.params,
				"dq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse) "+c.params)
			p.out = []string{"out", "lse", "dq", "dk", "dv"}
			p.options.Instructions = []string{"attention", "attention_grad"}
			p.check(t, false)
		})
	}
}

// TestAttentionPlaced has sequences and heads on several ranks.
func TestAttentionPlaced(t *testing.T) {
	p := &program{mesh: "dp=2,tp=2", place: map[string]string{"q": "dp,_,tp", "k": "dp,_,tp", "v": "dp,_,tp", "dout": "dp,_,tp", "dlse": "dp,tp"}}
	p.input("q", "f32[2,9,4,8]")
	p.input("k", "f32[2,9,2,8]")
	p.input("v", "f32[2,9,2,8]")
	p.input("dout", "f32[2,9,4,8]")
	p.input("dlse", "f32[2,4,9]")
	p.body = append(p.body, "out, lse = attention(q, k, v)", "dq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse)")
	p.out = []string{"out", "lse", "dq", "dk", "dv"}
	p.options.Instructions = []string{"attention", "attention_grad"}
	p.check(t, false)
}

// TestRefusedRows says why rows that no kernel does are left to the host.
func TestRefusedRows(t *testing.T) {
	for _, c := range []struct{ in, eq, want string }{
		{"q f32[1,4,2,136], k f32[1,4,2,136]", "out, lse = attention(q, k, k)", "heads of 136 elements"},
		{"q f64[1,4,2,8], k f64[1,4,2,8]", "out, lse = attention(q, k, k)", "elements of f64"},
		{"q f64[4,8]", "out = softmax(q) axis=1", "elements of f64"},
		{"q f64[4,8], k f64[8]", "out = rms_norm(q, k)", "elements of f64"},
		{"q f64[1,4,2,8], t i32[4]", "out = rope(q, t)", "elements of f64"},
		{"q f64[4,8], k i32[4]", "out = cross_entropy(q, k)", "elements of f64"},
	} {
		p, err := gomoe.Parse("p", "program p("+c.in+") {\n "+c.eq+"\n return out\n}")
		require.NoError(t, err)
		plan, err := gomoe.Compile(p, gomoe.Config{Target: kernels.Metal{}, Optimize: gomoe.Off})
		require.NoError(t, err)
		var why []string
		for i := range plan.Instrs {
			why = append(why, plan.Instrs[i].Why)
		}
		require.Contains(t, strings.Join(why, "\n"), c.want, c.eq)
	}
}
