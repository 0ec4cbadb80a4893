package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
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

// TestAttentionOptions compares attention and, where keys have the queries' element type, its
// gradient with each option, with keys of other lengths and other
// element types than the queries, and with several options at once.
func TestAttentionOptions(t *testing.T) {
	for _, c := range []struct {
		q, k, v string
		args    string // names of optional arguments, in order
		params  string
		lengths []int32
	}{
		{"f32[2,3,4,16]", "f32[2,40,2,16]", "f32[2,40,2,24]", "", "", nil},
		{"f32[2,50,2,8]", "f32[2,37,2,8]", "f32[2,37,2,40]", "", "", nil}, // the first queries have no keys
		{"f32[3,1,4,32]", "bf16[3,70,2,32]", "bf16[3,70,2,32]", "lengths", "", []int32{0, 33, 70}},
		{"f32[3,2,4,32]", "q8_0[3,40,1,32]", "q8_0[3,40,1,64]", "lengths", "", []int32{2, 40, 17}},
		{"bf16[2,5,2,32]", "f16[2,40,1,32]", "f16[2,40,1,32]", "lengths,start", "", []int32{40, 9}},
		{"f16[2,35,2,16]", "f16[2,40,1,16]", "f16[2,40,1,16]", "start", "window=7", nil},
		{"f32[2,70,2,8]", "f32[2,70,2,8]", "f32[2,70,2,8]", "", "window=33", nil},
		{"f32[2,9,4,8]", "f32[2,33,2,8]", "f32[2,33,2,8]", "sinks", "soft_cap=0.7", nil},
		{"f32[2,9,4,8]", "f32[2,33,2,8]", "f32[2,33,2,8]", "bias", "full=true", nil},
		{"f32[3,2,4,32]", "f32[3,40,1,32]", "f32[3,40,1,64]", "lengths", "", []int32{2, 40, 17}},
		{"f16[2,40,2,8]", "f16[2,33,1,8]", "f16[2,33,1,8]", "start,bias", "window=5 soft_cap=2", nil},
		{"f32[2,33,2,96]", "f32[2,65,1,96]", "f32[2,65,1,128]", "lengths,start,sinks,bias", "window=20 soft_cap=3", []int32{65, 30}},
		{"bf16[2,4,2,16]", "bf16[2,33,1,16]", "bf16[2,33,1,16]", "sinks,bias", "", nil},
		{"f32[2,0,2,8]", "f32[2,5,2,8]", "f32[2,5,2,8]", "", "", nil},
		{"f32[2,3,2,8]", "f32[2,0,2,8]", "f32[2,0,2,8]", "sinks", "", nil},
	} {
		t.Run(strings.ReplaceAll(c.q+" "+c.k+" "+c.v+" "+c.args+" "+c.params, " ", ","), func(t *testing.T) {
			p := &program{}
			p.input("q", c.q)
			p.input("k", c.k)
			p.input("v", c.v)
			var b, s, n, d, r, m, w int
			kind, shape, _ := strings.Cut(c.q, "[")
			_, err := fmt.Sscanf(shape, "%d,%d,%d,%d]", &b, &s, &n, &d)
			require.NoError(t, err)
			_, shape, _ = strings.Cut(c.k, "[")
			_, err = fmt.Sscanf(shape, "%d,%d", &b, &r)
			require.NoError(t, err)
			_, shape, _ = strings.Cut(c.v, "[")
			_, err = fmt.Sscanf(shape, "%d,%d,%d,%d]", &b, &r, &m, &w)
			require.NoError(t, err)
			params, names := c.params, "q, k, v"
			for _, name := range strings.FieldsFunc(c.args, func(r rune) bool { return r == ',' }) {
				params += " " + name + "=true"
				names += ", " + name
				switch name {
				case "lengths":
					p.integers(name, c.lengths...)
				case "start":
					p.integers(name, -3, int32(r-s)+2)
				case "sinks":
					p.input(name, fmt.Sprintf("%s[%d]", kind, n))
				case "bias":
					p.input(name, fmt.Sprintf("f32[1,%d,%d,%d]", n, s, r))
				}
			}
			p.body = []string{"out, lse = attention(" + names + ") " + params}
			p.out = []string{"out", "lse"}
			if s > 0 {
				p.options.Instructions = []string{"attention"}
			}
			if strings.HasPrefix(c.k, kind+"[") {
				p.input("dout", fmt.Sprintf("%s[%d,%d,%d,%d]", kind, b, s, n, w))
				p.input("dlse", fmt.Sprintf("f32[%d,%d,%d]", b, n, s))
				names, params = strings.Replace(names, ", sinks", "", 1), strings.Replace(params, "sinks=true", "", 1)
				p.body = append(p.body, "dq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse"+strings.TrimPrefix(names, "q, k, v")+") "+params)
				p.out = append(p.out, "dq", "dk", "dv")
				if s > 0 && r > 0 {
					p.options.Instructions = append(p.options.Instructions, "attention_grad")
				}
			}
			p.check(t, false)
		})
	}
}

// integers adds an input of these elements, i32.
func (p *program) integers(name string, x ...int32) {
	p.input(name, fmt.Sprintf("i32[%d]", len(x)))
	before := p.fill
	p.fill = func(n string, to array.Array, r *rand.Rand) {
		if n == name {
			copy(array.Data[int32](to), x)
		} else if before != nil {
			before(n, to, r)
		}
	}
}

// A length that no sequence can have is the host's error.
func TestAttentionLengthRefused(t *testing.T) {
	p := &program{}
	p.input("q", "f32[2,1,2,8]")
	p.input("k", "f32[2,9,1,8]")
	p.integers("n", 9, 10)
	p.body, p.out = []string{"out, lse = attention(q, k, k, n) lengths=true"}, []string{"out", "lse"}
	p.options.Fails = "length 10 at [1], want 0 to 9"
	p.check(t, false)
}

// Ranks have heads of queries, and all heads of keys.
func TestAttentionFewHeadsOfKeys(t *testing.T) {
	for _, n := range []int{8, 6} {
		p := &program{mesh: "tp=4", place: map[string]string{"q": "_,_,tp", "dout": "_,_,tp", "dlse": "_,tp"}}
		p.input("q", fmt.Sprintf("f32[1,9,%d,8]", n))
		p.input("k", "f32[1,9,2,8]")
		p.input("v", "f32[1,9,2,8]")
		p.input("dout", fmt.Sprintf("f32[1,9,%d,8]", n))
		p.input("dlse", fmt.Sprintf("f32[1,%d,9]", n))
		p.body = append(p.body, "out, lse = attention(q, k, v)", "dq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse)")
		p.out = []string{"out", "lse", "dq", "dk", "dv"}
		p.options.Instructions = []string{"attention", "attention_grad"}
		p.check(t, false)
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
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: kernels.Metal{}, Optimize: gomoe.Off})
		require.NoError(t, err)
		var why []string
		for i := range plan.Instrs {
			why = append(why, plan.Instrs[i].Why)
		}
		require.Contains(t, strings.Join(why, "\n"), c.want, c.eq)
	}
}
