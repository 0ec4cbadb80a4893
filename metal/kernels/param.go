package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// These functions return parameters common to several primitives of one kernel. A primitive without
// them is a mistake in a kernel's list.

// axisOf returns the axis of softmax and similar primitives.
func axisOf(p graph.Primitive) (int, error) {
	switch p := p.(type) {
	case primitives.SoftmaxOp:
		return p.Axis, nil
	case primitives.SoftmaxGradOp:
		return p.Axis, nil
	case primitives.LogSoftmaxOp:
		return p.Axis, nil
	case primitives.LogSoftmaxGradOp:
		return p.Axis, nil
	case primitives.LogSumExpOp:
		return p.Axis, nil
	}
	return 0, without(p, "axis")
}

// epsOf returns the epsilon of a norm or of its gradient.
func epsOf(p graph.Primitive) (float64, error) {
	switch p := p.(type) {
	case primitives.RMSNormOp:
		return p.Eps, nil
	case primitives.RMSNormGradOp:
		return p.Eps, nil
	case primitives.RMSNormGainGradOp:
		return p.Eps, nil
	case primitives.LayerNormOp:
		return p.Eps, nil
	case primitives.LayerNormGradOp:
		return p.Eps, nil
	case primitives.LayerNormGainGradOp:
		return p.Eps, nil
	}
	return 0, without(p, "eps")
}

// attentionOf returns the parameters of attention or of its derivative.
func attentionOf(p graph.Primitive) (primitives.AttentionOp, error) {
	switch p := p.(type) {
	case primitives.AttentionOp:
		return p, nil
	case primitives.AttentionGradOp:
		return primitives.AttentionOp(p), nil
	}
	return primitives.AttentionOp{}, without(p, "scale")
}

// tanhOf reports whether a GELU is the approximate one.
func tanhOf(p graph.Primitive) (bool, error) {
	switch p := p.(type) {
	case primitives.GELUOp:
		return p.Tanh, nil
	case primitives.GELUGradOp:
		return p.Tanh, nil
	}
	return false, without(p, "tanh")
}

// transposeOf reports whether a product with experts' matrices takes them transposed.
func transposeOf(p graph.Primitive) (bool, error) {
	if p, ok := p.(primitives.GroupedMatMulOp); ok {
		return p.Transpose, nil
	}
	return false, without(p, "transpose")
}

func without(p graph.Primitive, param string) error {
	return fmt.Errorf("primitive %s has no parameter %s", p.Name(), param)
}
