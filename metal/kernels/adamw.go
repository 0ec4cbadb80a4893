package kernels

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/primitives"
)

// leastEps is the smallest AdamWOp.Eps served by a kernel. A second moment too small for a normal
// float32 is off by up to 2^-126; its root must be small compared to Eps.
const leastEps = 1e-12

// adamWOf writes the code of an AdamW update. The moments are computed in pairs of floats and equal
// the host's except near ties of rounding. The step of the parameter is within 16 ulp of the
// host's.
func adamWOf(p *part) ([]string, error) {
	s, ok := p.prim.(primitives.AdamWOp)
	switch {
	case !ok:
		return nil, refuse("made by %T", p.prim)
	case s.Eps < leastEps:
		return nil, refuse("eps=%v, which is too small for moments in f32; want %v or more", s.Eps, leastEps)
	}
	t := p.text
	number := func(x float64) string { return "as_type<float>(" + t.param(math.Float32bits(float32(x))) + ")" }
	pair := func(x float64) string {
		high, low := twoFloats(x)
		return t.before("float2", fmt.Sprintf("float2(as_type<float>(%s), as_type<float>(%s))", t.param(high), t.param(low)))
	}
	x, m, v, g, lr, step, scale := p.x[0], p.x[1], p.x[2], p.x[3], p.x[4], p.x[5], p.x[6]
	t.fault(fmt.Sprintf("%s < 1", step), p.index, step)
	correction := func(b float64) string {
		return t.once(step, "float", fmt.Sprintf("adamw_correction(%s, %s)", pair(math.Log(b)), step))
	}
	c1, c2 := correction(s.B1), correction(s.B2)
	m2 := t.value("float", fmt.Sprintf("adamw_first(%s, %s, %s, %s, %s)", m, g, scale, pair(s.B1), pair(1-s.B1)))
	v2 := t.value("float", fmt.Sprintf("adamw_second(%s, %s, %s, %s, %s)", v, g, scale, pair(s.B2), pair(1-s.B2)))
	p2 := fmt.Sprintf("adamw_parameter(%s, %s, %s, %s, %s, %s, %s, %s)", x, m2, v2, c1, c2, lr, number(s.Eps), number(s.WeightDecay))
	return []string{p2, m2, v2}, nil
}

// adamWFault returns the host's error for a step below 1. The record holds the step and
// the index of the part.
func adamWFault(in *Instr) func(record [StatusLen]int32) error {
	return func(record [StatusLen]int32) error {
		err := fmt.Errorf("step %d, want the number of this update, the first being 1", record[1])
		if len(in.Chain) > 0 {
			return &exec.LinkError{Link: int(record[0]), Err: err}
		}
		return err
	}
}
