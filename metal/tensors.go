package metal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
)

// tensorFamily is the first family of GPUs with neural accelerators, the M5's. Older GPUs compute tensor
// operations like products of simdgroup matrices.
const tensorFamily = 10

// tensorSystem is the first macOS version with tensor operations.
const tensorSystem = 26

// Tensors returns the reason why products of 16-bit matrices do not use the tensor operations of Metal
// 4, "" if they do. A GPU uses them if it is of family Apple10 or newer, the system has Metal Shading
// Language 4.0, its compiler accepts the kernels, and products with known results are computed
// correctly.
func (d *Device) Tensors() string { return d.noTensors }

// tensors returns the reason for not using tensor operations, "" if there is none, or if ctx has ended.
func (d *Device) tensors(ctx context.Context) string {
	if f := d.gpu.Facts().Family; f < tensorFamily {
		return fmt.Sprintf("GPUs have neural accelerators from family Apple%d on, and this one is of family Apple%d", tensorFamily, f)
	}
	if !d.gpu.HasTensors() {
		return fmt.Sprintf("the system is older than macOS %d, the first with %s", tensorSystem, mtl.MSL40)
	}
	if err := d.probe(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// probeTime is the limit on the duration of a probe. On a GPU each takes microseconds.
const probeTime = time.Minute

var errProbeTime = errors.New("a product by tensor operations takes longer than " + probeTime.String())

// probe returns an error if tensor operations do not behave as the kernels assume. If ctx ends first,
// the error wraps its cause.
func (d *Device) probe(ctx context.Context) error {
	const file = "dot_general.metal"
	library, err := d.library(file, nil, true)
	if err != nil {
		return err
	}
	probes, err := kernels.TensorProbes()
	if err != nil {
		return err
	}
	q, err := d.gpu.CommandQueue()
	if err != nil {
		return err
	}
	defer q.Close()
	q.Keep(d.resident)
	for _, p := range probes {
		if err := d.try(ctx, q, library, p); err != nil {
			return err
		}
	}
	return nil
}

// try runs a probe and checks its result. If ctx ends first, the GPU continues, and its command buffer
// retains the objects it uses.
func (d *Device) try(ctx context.Context, q *mtl.CommandQueue, library *mtl.Library, p kernels.Probe) error {
	pipeline, err := d.gpu.Pipeline(library, p.Launch.Function, constants(p.Launch.Constants)...)
	if err != nil {
		return err
	}
	var buffers []*mtl.Buffer
	defer func() {
		for _, b := range buffers {
			b.Close()
		}
	}()
	for _, n := range []int{len(p.A), len(p.B), p.C} {
		b, err := d.gpu.Buffer(n)
		if err != nil {
			return err
		}
		buffers = append(buffers, b)
	}
	copy(buffers[0].Bytes(), p.A)
	copy(buffers[1].Bytes(), p.B)
	commands, err := q.Encode("tensor operations", func(c *mtl.CommandBuffer) error {
		e := c.Compute(false)
		e.SetPipeline(pipeline)
		for i, b := range buffers {
			e.SetBuffer(i, b, 0)
		}
		e.SetBytes(len(buffers), p.Launch.Args[len(buffers)].Bytes)
		e.Dispatch(p.Launch.Groups, p.Launch.Threads)
		e.End()
		return c.Mistake()
	})
	if err != nil {
		return err
	}
	defer commands.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, errProbeTime)
	defer cancel()
	if err := commands.Wait(ctx); err != nil {
		return err
	}
	return p.Check(buffers[2].Bytes()[:p.C])
}
