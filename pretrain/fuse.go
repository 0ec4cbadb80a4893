package pretrain

import (
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// fuse returns a layer's experts as gpt-oss has them in files, where gate and up of all experts are one tensor in which
// they take turns. name is that of the parameter of gate, up or down with a star for the experts; w is [E,out,in], or
// [E,out] for a bias, and up is the parameter of up where w is gate. What up itself would be is part of gate's, so ok is
// false.
//
//	gate_up_proj [E,H,2I], gate_up_proj_bias [E,2I], down_proj [E,I,H], down_proj_bias [E,H]
func fuse(name string, w array.Array, up func(name string) array.Array) (_ tensor.Source, ok bool) {
	before, part, _ := strings.Cut(name, "experts.*.")
	part, kind, _ := strings.Cut(part, ".")
	turns := []array.Array{w}
	switch part {
	case "up_proj":
		return tensor.Source{}, false
	case "gate_proj":
		part = "gate_up_proj"
		turns = append(turns, up(before+"experts.*.up_proj."+kind))
	}
	name = before + "experts." + part
	if kind == "bias" {
		name += "_bias"
	}
	experts, out, in := w.Type.Shape[0], w.Type.Shape[1], 1
	if kind != "bias" {
		in = w.Type.Shape[2]
	}
	to := array.New(graph.T(w.Type.DType, experts, in, out*len(turns)))
	size, at := w.Type.DType.Size(), 0
	for e := range experts {
		for i := range in {
			for o := range out {
				for _, from := range turns {
					at += copy(to.Bytes()[at:], from.Bytes()[((e*out+o)*in+i)*size:][:size])
				}
			}
		}
	}
	if kind == "bias" {
		to = to.Reshape(experts, out*len(turns))
	}
	return tensor.Of(name, to), true
}
