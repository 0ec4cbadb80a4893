package graph

import "testing"

func TestPromote(t *testing.T) {
	src := `program f(x f32[2]) {
	y f32[2] = add_any(x, x)
	return y
}

program b(x f32[2], y f32[2], ct f32[2]) {
	g f32[2] = add_any(ct, ct)
	return g
}

program p(x f32[2], n i32[2], h bf16[3]) {
	y f32[2] = custom_vjp(x) fn=f vjp=b
	c bf16[3] = full() value=2 dtype=bf16 shape=[3]
	i i32[3] = full() value=2 dtype=i32 shape=[3]
	z bf16[3] = add_any(c, h)
	s f32[2], t f32[3,2] = scan(x) length=3 carry=1 body=program body(c f32[2]) {
		k f32[2] = scan(c) length=2 carry=1 body=program body(c f32[2]) {
			y f32[2] = custom_vjp(c) fn=f vjp=b
			return y
		}
		return k, c
	}
	return y, z, i, n, s, t
}
`
	want := `program f(x f64[2]) {
	y f64[2] = add_any(x, x)
	return y
}

program b(x f64[2], y f64[2], ct f64[2]) {
	g f64[2] = add_any(ct, ct)
	return g
}

program p(x f64[2], n i32[2], h f64[3]) {
	y f64[2] = custom_vjp(x) fn=f vjp=b
	c f64[3] = full() value=2 dtype=f64 shape=[3]
	i i32[3] = full() value=2 dtype=i32 shape=[3]
	z f64[3] = add_any(c, h)
	s f64[2], t f64[3,2] = scan(x) length=3 carry=1 body=program body(c f64[2]) {
		k f64[2] = scan(c) length=2 carry=1 body=program body(c f64[2]) {
			y f64[2] = custom_vjp(c) fn=f vjp=b
			return y
		}
		return k, c
	}
	return y, z, i, n, s, t
}
`
	p, err := Parse("p.graph", src)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Promote(p, F64)
	if err != nil {
		t.Fatal(err)
	}
	if got := q.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := p.String(); got != src {
		t.Errorf("the program given has changed:\n%s", got)
	}
	if got := q.Eqns[1].Pos.String(); got != "p.graph:13" {
		t.Errorf("equation at %s, want p.graph:13", got)
	}
	if err := Check(q); err != nil {
		t.Error(err)
	}
}
