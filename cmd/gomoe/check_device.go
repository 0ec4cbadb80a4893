package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

// deviceCheck compares a device's results with the host's, in the program's own types. Derivatives
// are compared with differences in f64, which no GPU has, so that check does not involve the
// device.
type deviceCheck struct {
	Device       string       `json:"device"`
	Instructions int          `json:"instructions"`
	OnHost       int          `json:"host_instructions"`
	Results      []deviceDiff `json:"results"`
	OK           bool         `json:"ok"`
}

// deviceDiff is the largest difference between a device's result and the host's.
type deviceDiff struct {
	Name    string `json:"name"` // a result, or the cotangent of an input
	Type    string `json:"type"`
	Error   number `json:"error"` // relative to the host's largest element, if that is more than 1e-3
	Allowed number `json:"allowed"`
	OK      bool   `json:"ok"`
}

// onDevice runs the program and its derivative on the host and on the device, giving both the
// inputs x.
func (c *checkRun) onDevice(ctx context.Context, x map[string]array.Array) (*deviceCheck, error) {
	pull, err := vjp.Pullback(c.p, c.opts.Wrt...)
	if err != nil {
		return nil, in(c.path, err)
	}
	out := &deviceCheck{Device: c.device, OK: true}
	for _, p := range []*graph.Program{c.p, pull} {
		args := map[string]array.Array{}
		for _, v := range p.In {
			if a, ok := x[v.Name]; ok {
				args[v.Name] = a.As(v.Type.DType)
			}
		}
		complete(p, args, c.opts.Seed)
		want, _, err := c.step(ctx, p, gomoe.Config{}, args)
		if err != nil {
			return nil, err
		}
		got, j, err := c.step(ctx, p, c.cfg, args)
		if err != nil {
			return nil, err
		}
		use := j.Plan().Report(1).Device
		out.Instructions += use.On
		out.OnHost += use.Host
		for i := range want {
			d := deviceDiff{Name: j.Plan().Out[i].Name, Type: want[i].Type.String(), Allowed: number(allowedOn(want[i].Type.DType))}
			d.Error = number(apart(got[i], want[i]))
			d.OK = float64(d.Error) <= float64(d.Allowed)
			out.OK = out.OK && d.OK
			out.Results = append(out.Results, d)
		}
	}
	return out, nil
}

// step runs p once.
func (c *checkRun) step(ctx context.Context, p *graph.Program, cfg gomoe.Config, args map[string]array.Array) ([]array.Array, *gomoe.Job, error) {
	j, err := open(ctx, c.path, p, cfg, c.limit)
	if err != nil {
		return nil, nil, err
	}
	out, err := j.Step(ctx, args)
	return out, j, in(c.path, errors.Join(err, j.Close()))
}

// allowedOn returns the largest accepted difference between a device's result and the host's. The
// device adds in another order and rounds at other points.
func allowedOn(d graph.DType) float64 {
	switch d {
	case graph.F16, graph.BF16:
		return 2e-2
	case graph.F32:
		return 1e-4
	}
	return 0
}

// apart returns the largest difference between elements of got and want, relative to the largest
// element of want if that exceeds 1e-3. It is infinite if only one of two corresponding elements is
// a number.
func apart(got, want array.Array) float64 {
	x, y := got.Float64s(), want.Float64s()
	worst, scale := 0.0, 1e-3
	for i := range y {
		switch d := math.Abs(x[i] - y[i]); {
		case x[i] == y[i], x[i] != x[i] && y[i] != y[i]:
		case d != d || math.IsInf(d, 0):
			return math.Inf(1)
		default:
			worst = max(worst, d)
		}
		if !math.IsNaN(y[i]) && !math.IsInf(y[i], 0) {
			scale = max(scale, math.Abs(y[i]))
		}
	}
	return worst / scale
}

// String returns a line per result.
func (d *deviceCheck) String() string {
	s := fmt.Sprintf("on %s, in the program's own types: %d instructions, and %d on the host\n", d.Device, d.Instructions, d.OnHost)
	for _, r := range d.Results {
		verdict := "ok    "
		if !r.OK {
			verdict = "WRONG "
		}
		s += fmt.Sprintf("%s %s %s: differs from the host by %.1e of the largest element (allowed %.0e)\n", verdict, r.Name, r.Type, float64(r.Error), float64(r.Allowed))
	}
	return s
}
