package kernels_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
)

var libs = map[string]*emu.Library{}

func lib(t testing.TB, file string) *emu.Library {
	if l := libs[file]; l != nil {
		return l
	}
	text, err := kernels.Text(file)
	require.NoError(t, err)
	c, err := emu.Find()
	require.NoError(t, err)
	out, err := c.Build(context.Background(), text, emu.BuildOptions{Lint: true})
	require.NoError(t, err)
	l, err := emu.Open(out)
	require.NoError(t, err)
	libs[file] = l
	return l
}

// launch runs a program.
func launch(t testing.TB, p *kernels.Program, in, out [][]byte, zones []byte, order int) [4]int32 {
	ins, outs, scratch := []*emu.Buffer{}, []*emu.Buffer{}, []*emu.Buffer{}
	mk := func(b []byte) *emu.Buffer {
		x, err := emu.NewBufferOf(b)
		require.NoError(t, err)
		return x
	}
	for _, b := range in {
		ins = append(ins, mk(b))
	}
	for _, b := range out {
		outs = append(outs, mk(b))
	}
	for _, n := range p.Scratch {
		scratch = append(scratch, mk(bytes.Repeat([]byte{0xff}, n)))
	}
	z := mk(zones)
	var st [4]int32
	for i := range st {
		st[i] = kernels.StatusClear
	}
	status := mk([]byte{255, 255, 255, 127, 255, 255, 255, 127, 255, 255, 255, 127, 255, 255, 255, 127})
	for _, l := range p.Launches {
		if l.Groups[0]*l.Groups[1]*l.Groups[2] == 0 {
			continue
		}
		var bufs []emu.Binding
		for _, a := range l.Args {
			switch a.Kind {
			case kernels.OfIn:
				bufs = append(bufs, emu.Binding{Buffer: ins[a.Index]})
			case kernels.OfOut:
				bufs = append(bufs, emu.Binding{Buffer: outs[a.Index]})
			case kernels.OfZones:
				bufs = append(bufs, emu.Binding{Buffer: z})
			case kernels.OfScratch:
				bufs = append(bufs, emu.Binding{Buffer: scratch[a.Index]})
			case kernels.OfStatus:
				bufs = append(bufs, emu.Binding{Buffer: status})
			case kernels.OfBytes:
				bufs = append(bufs, emu.Binding{Bytes: a.Bytes})
			}
		}
		require.NoError(t, lib(t, l.Source.File).Run(context.Background(), emu.Launch{Function: l.Function, Groups: l.Groups, Threads: l.Threads, Memory: l.Memory, Buffers: bufs, Order: emu.Order(order), Seed: 7, Workers: 1}), "%s", l.Function)
	}
	for i := range out {
		copy(out[i], outs[i].Bytes())
	}
	for i := range st {
		b := status.Bytes()[4*i:]
		st[i] = int32(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
	}
	for _, b := range append(append(append(ins, outs...), scratch...), status, z) {
		b.Close()
	}
	return st
}
