package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

func cacheUpdate() Kernel {
	return Kernel{
		Name: "cache_update", Serves: []ops.Op{ops.CacheUpdate}, Primitives: []string{"cache_update"},
		Doc:       "rows of sequences written into their caches; a donated cache is not copied",
		Functions: append(append([]Function{{Name: "cache_write", Threads: lineThreads}, {Name: "cache_write_q8_0", Threads: lineThreads}}, moveFunctions()...), checkFunctions()...),
		Build:     cacheProgram,
	}
}

func cacheProgram(in *Instr) (*Program, error) {
	if in.Ragged() {
		return nil, refuse("caches ragged rows")
	}
	cache, update := in.Args[0].Type, in.Args[1].Type
	source, err := floatCode(update.DType)
	if err != nil {
		return nil, err
	}
	target, unit, function := int32(0), 1, "cache_write"
	if cache.DType == graph.Q8_0 {
		unit, function = 32, "cache_write_q8_0"
	} else if target, err = floatCode(cache.DType); err != nil {
		return nil, err
	}
	room, rows := cache.Shape[1], update.Shape[1]
	launches := []Launch{checked(2, cache.Shape[0], 0, room-rows+1)}
	switch same := in.Root(in.In[0]) == in.Root(in.Out[0]); {
	case update.Equal(cache): // every row is written, and the result may alias the update
		l, err := in.move(line1(cache.Len()), cache.DType, Out(0), In(1), In(1), movePlain)
		if err != nil {
			return nil, err
		}
		launches = append(launches, l)
	default:
		if !same {
			d, n := cache.DType, cache.Len()
			if unit > 1 {
				d, n = graph.F16, int(cache.Bytes())/2 // a block is 34 bytes
			}
			l, err := in.move(line1(n), d, Out(0), In(0), In(0), movePlain)
			if err != nil {
				return nil, err
			}
			launches = append(launches, l)
		}
		count := update.Len() / unit
		each := count / max(cache.Shape[0], 1)
		l := Launch{Source: Source{File: "cache.metal"}, Function: function, Constants: map[int]any{0: target, 1: source}}
		row := each / max(rows, 1)
		l.Args = []Arg{In(1), In(2), Out(0), Params(count, max(each, 1), row, room*row, room-rows)}
		l.Groups, l.Threads = line(count)
		launches = append(launches, l)
	}
	p := program(launches...)
	p.Fault = in.indexFault(2, room-rows+1)
	return p, nil
}

// line1 returns n contiguous elements.
func line1(n int) box { return box{shape: []int{n}, to: []int{1}, from: []int{1}} }
