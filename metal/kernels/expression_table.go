package kernels

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// expressions returns the expressions of elementwise operations. The map must not be changed. The
// errors of Metal's functions are those in its specification with fast math off, table
// "accuracy of math functions". The host's errors are added: half an ulp, except for what
// vector.Exp documents.
var expressions = sync.OnceValue(func() map[ops.Op]expression {
	return map[ops.Op]expression{
		ops.Full:   {of: fullOf},
		ops.AddAny: {of: sumOf},

		ops.Neg:    {of: byType("-%s", "wrap_sub({t}(0), %s)")},
		ops.Abs:    {of: byType("fabs(%s)", "%[1]s < 0 ? wrap_sub(0, %[1]s) : %[1]s")},
		ops.Sign:   {of: byType("%[1]s > 0.0f ? 1.0f : %[1]s < 0.0f ? -1.0f : %[1]s", "%[1]s > 0 ? {t}(1) : %[1]s < 0 ? {t}(-1) : {t}(0)")},
		ops.Square: {of: byType("%[1]s * %[1]s", "wrap_mul(%[1]s, %[1]s)")},
		ops.Floor:  {of: always("floor(%s)")},
		ops.Ceil:   {of: always("ceil(%s)")},
		ops.Sqrt:   {of: always("precise::sqrt(%s)")},
		ops.Round:  {of: roundOf},

		ops.Rsqrt:    {of: always("1.0f / precise::sqrt(%s)"), ulps: 2},
		ops.Exp:      {of: always("precise::exp(%s)"), ulps: 6},
		ops.Expm1:    {of: always("exp_less_1(%s)"), ulps: 12},
		ops.Log:      {of: always("precise::log(%s)"), ulps: 6},
		ops.Log1p:    {of: always("log_1_plus(%s)"), ulps: 12},
		ops.Sin:      {of: always("precise::sin(%s)"), ulps: 6},
		ops.Cos:      {of: always("precise::cos(%s)"), ulps: 6},
		ops.Tanh:     {of: always("precise::tanh(%s)"), ulps: 8},
		ops.Logistic: {of: always("logistic(%s)"), ulps: 12},
		ops.Erf:      {of: always("erf_of(%s)"), ulps: 8},

		ops.Add: {of: byType("%s + %s", "wrap_add(%s, %s)")},
		ops.Sub: {of: byType("%s - %s", "wrap_sub(%s, %s)")},
		ops.Mul: {of: byType("%s * %s", "wrap_mul(%s, %s)")},
		ops.Div: {of: byType("%s / %s", "whole_div(%s, %s)")},
		ops.Rem: {of: byType("remainder_of(%s, %s)", "whole_rem(%s, %s)")},
		ops.Pow: {of: always("precise::pow(%s, %s)"), ulps: 18},
		ops.Max: extreme("maximum", "%s || %s"),
		ops.Min: extreme("minimum", "%s && %s"),

		ops.Eq: ordered("=="),
		ops.Ne: ordered("!="),
		ops.Lt: ordered("<"),
		ops.Le: ordered("<="),
		ops.Gt: ordered(">"),
		ops.Ge: ordered(">="),

		ops.Not: boolOrInt("!%s", "{t}(~%s)"),
		ops.And: boolOrInt("%s && %s", "{t}(%s & %s)"),
		ops.Or:  boolOrInt("%s || %s", "{t}(%s | %s)"),
		ops.Xor: boolOrInt("%s != %s", "{t}(%s ^ %s)"),

		ops.SelectN:            {of: selectOf},
		ops.Clamp:              {of: clampOf},
		ops.ConvertElementType: {of: convertOf},
		ops.IsFinite:           {of: always("isfinite(%s)")},

		ops.SiLU:       {of: always("%[1]s * logistic(%[1]s)"), ulps: 14},
		ops.SiLUGrad:   {of: always("%[2]s * silu_slope(%[1]s, logistic(%[1]s))"), ulps: 24, cancels: true},
		ops.SwiGLU:     {of: always("%[1]s * logistic(%[1]s) * %[2]s"), ulps: 16},
		ops.SwiGLUGrad: {of: swigluGradOf, ulps: 24, cancels: true},
		ops.GELU:       {of: geluOf("%s(%s)", "gelu", "gelu_tanh"), ulps: 32},
		ops.GELUGrad:   {of: geluOf("%[3]s * %[1]s(%[2]s)", "gelu_slope", "gelu_tanh_slope"), ulps: 32, cancels: true},
		ops.AdamW:      {of: adamWOf, ulps: 16, cancels: true},
	}
})

// sumOf adds from left to right and rounds once.
func sumOf(p *part) ([]string, error) {
	if !p.float() {
		return nil, refuse("sums of cotangents of %s", p.operand())
	}
	sum := p.x[0]
	for _, x := range p.x[1 : len(p.x)-1] {
		sum = p.text.value("float", sum+" + "+x)
	}
	return []string{sum + " + " + p.x[len(p.x)-1]}, nil
}

func roundOf(p *part) ([]string, error) {
	r, err := paramsOf[struct{ ToEven bool }](p.prim)
	if err != nil {
		return nil, err
	}
	if r.ToEven {
		return p.format("rint(%s)")
	}
	return p.format("round(%s)")
}

// selectOf selects the case numbered by the first argument. A number out of range selects the
// nearest case.
func selectOf(p *part) ([]string, error) {
	which, cases := p.x[0], p.x[1:]
	last := len(cases) - 1
	e := cases[last]
	for i := last - 1; i >= 0; i-- {
		if p.in[0] == graph.Bool {
			e = fmt.Sprintf("!%s ? %s : %s", which, cases[i], e)
		} else if p.in[0] == graph.I32 {
			e = fmt.Sprintf("%s <= %d ? %s : %s", which, i, cases[i], e)
		} else {
			e = fmt.Sprintf("%s <= %du ? %s : %s", which, i, cases[i], e)
		}
	}
	return []string{e}, nil
}

func clampOf(p *part) ([]string, error) {
	if p.operand() == graph.Bool {
		return p.format("(%[2]s || %[1]s) && %[3]s")
	}
	return p.format("minimum(maximum(%[2]s, %[1]s), %[3]s)")
}

// convertOf does the same as array.Convert. 16-bit types are rounded when they are stored, and
// 8-bit floats here.
func convertOf(p *part) ([]string, error) {
	from, to := p.in[0], p.out[0]
	if from.IsF8() {
		wide := *p
		wide.in, wide.x = []graph.DType{graph.F32}, []string{p.text.value("float", from.String()+"_value("+p.x[0]+")")}
		return convertOf(&wide)
	}
	if to.IsF8() {
		wide := *p
		wide.out = []graph.DType{graph.F32}
		if from.IsInt() && from != graph.U8 {
			wide.out = []graph.DType{graph.BF16} // keeps the bits needed by a second rounding
		}
		float, err := convertOf(&wide)
		if err != nil {
			return nil, err
		}
		return []string{to.String() + "_code(" + float[0] + ")"}, nil
	}
	t, err := metalTypeOf(to)
	if err != nil {
		return nil, err
	}
	switch {
	case to == graph.Bool && from.IsFloat():
		return p.format("%s != 0.0f")
	case to == graph.Bool:
		return p.format("%s != 0")
	case from.IsFloat() && to.IsFloat():
		return p.format("%s")
	case from.IsFloat():
		return p.format("to_" + t.value + "(%s)")
	case from == graph.Bool:
		return p.format("%s ? " + t.value + "(1) : " + t.value + "(0)")
	case to == graph.BF16 || to == graph.F16:
		if from == graph.U8 {
			return p.format("float(%s)")
		}
		return p.format("narrowable(%s)")
	}
	return p.format(t.value + "(%s)")
}

func swigluGradOf(p *part) ([]string, error) {
	gate, up, ct := p.x[0], p.x[1], p.x[2]
	s := p.text.value("float", "logistic("+gate+")")
	return []string{
		fmt.Sprintf("%s * %s * silu_slope(%s, %s)", ct, up, gate, s),
		fmt.Sprintf("%s * (%s * %s)", ct, gate, s),
	}, nil
}

// geluOf formats the name of the exact or the approximate function and the arguments.
func geluOf(format, exact, approximate string) func(p *part) ([]string, error) {
	return func(p *part) ([]string, error) {
		op, err := paramsOf[struct{ Tanh bool }](p.prim)
		if err != nil {
			return nil, err
		}
		name := exact
		if op.Tanh {
			name = approximate
		}
		if strings.Contains(format, "[3]") {
			return []string{fmt.Sprintf(format, name, p.x[0], p.x[1])}, nil
		}
		return []string{fmt.Sprintf(format, name, p.x[0])}, nil
	}
}
