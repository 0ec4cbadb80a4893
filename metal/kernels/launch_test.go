package kernels_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
)

// launch runs a program on the emulated GPU, on copies of the arguments and for results of
// these sizes, and returns the status record. It skips the test where there is no compiler.
// Plans are compared by metaltest; this is for what a step of the host would take too long
// for, and for launches that no plan has.
func launch(t *testing.T, p *kernels.Program, in, out [][]byte) (record [kernels.StatusLen]int32) {
	t.Helper()
	buffers := func(mem [][]byte) []emu.Binding {
		var list []emu.Binding
		for _, m := range mem {
			b, err := emu.NewBufferOf(m)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			list = append(list, emu.Binding{Buffer: b})
		}
		return list
	}
	var scratch [][]byte
	for _, n := range p.Scratch {
		scratch = append(scratch, bytes.Repeat([]byte{0xFF}, n))
	}
	var clear []byte
	for range kernels.StatusLen {
		clear = binary.LittleEndian.AppendUint32(clear, uint32(kernels.StatusClear))
	}
	ofIn, ofOut, ofScratch, ofStatus := buffers(in), buffers(out), buffers(scratch), buffers([][]byte{clear})
	for _, l := range p.Launches {
		text, err := kernels.Text(l.Source.File)
		require.NoError(t, err)
		lib, err := metaltest.Library(t.Context(), text, emu.BuildOptions{})
		metaltest.Compiled(t, err)
		run := emu.Launch{Function: l.Function, Groups: l.Groups, Threads: l.Threads, Memory: l.Memory, Constants: l.Constants, Order: emu.Random, Seed: 7}
		for _, a := range l.Args {
			switch a.Kind {
			case kernels.OfIn:
				run.Buffers = append(run.Buffers, ofIn[a.Index])
			case kernels.OfOut:
				run.Buffers = append(run.Buffers, ofOut[a.Index])
			case kernels.OfScratch:
				run.Buffers = append(run.Buffers, ofScratch[a.Index])
			case kernels.OfStatus:
				run.Buffers = append(run.Buffers, ofStatus[0])
			case kernels.OfBytes:
				run.Buffers = append(run.Buffers, emu.Binding{Bytes: a.Bytes})
			default:
				require.Fail(t, "an argument that launches of tests have not", "%+v", a)
			}
		}
		require.NoError(t, lib.Run(t.Context(), run), "%s", l.Function)
	}
	for i, m := range out {
		copy(m, ofOut[i].Buffer.Bytes())
	}
	for i := range record {
		record[i] = int32(binary.LittleEndian.Uint32(ofStatus[0].Buffer.Bytes()[4*i:]))
	}
	return record
}
