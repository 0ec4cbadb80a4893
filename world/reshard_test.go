package world_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// Weights that a job's processes read by parts go to another job of the same processes, on
// another mesh, and its step has the bits of weights that were put there. MLX's ring cannot
// exchange parts, which is an error that leaves the jobs usable; it can take a part of what
// is whole.
func TestReshard(t *testing.T) {
	typ := graph.T(graph.F32, 7, 6)
	w := array.New(typ)
	for i := range array.Data[float32](w) {
		array.Data[float32](w)[i] = float32(i*i%17) / 8
	}
	open := func(wd *world.World, mesh string, place sharding.Spec) (*gomoe.Job, error) {
		p, err := graph.Trace("double", func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("w", typ.DType, typ.Shape...)
			return []*graph.Value{primitives.Mul(x, x)}
		})
		if err != nil {
			return nil, err
		}
		return gomoe.Open(t.Context(), p, gomoe.Config{World: wd, Mesh: *meshOf(t, mesh), Place: map[string]sharding.Spec{"w": place}})
	}
	for _, transport := range []string{"tcp", "shm", "ring"} {
		t.Run(transport, func(t *testing.T) {
			ok(t, worlds(t, 2, func(int) world.Config {
				return world.Config{Mode: world.PerProcess, Transport: transport}
			}, func(i int, wd *world.World) error {
				rows, err := open(wd, "dp=2", sharding.Split("dp"))
				if err != nil {
					return err
				}
				defer rows.Close()
				whole, err := open(wd, "dp=2", sharding.Spec{})
				if err != nil {
					return err
				}
				defer whole.Close()
				columns, err := open(wd, "tp=2", sharding.Split("", "tp"))
				if err != nil {
					return err
				}
				defer columns.Close()
				split, err := rows.PutParts("w", runtime.ReadAt(bytes.NewReader(w.Bytes()), 0))
				if err != nil {
					return err
				}
				x, err := columns.Reshard(t.Context(), "w", split)
				if transport == "ring" {
					if !errors.Is(err, jaccl.ErrUnsupported) || !strings.Contains(err.Error(), "runtime: reshard f32[7@dp,6] to f32[7,6@tp]: ") {
						t.Errorf("process %d: %v, want that MLX's ring does not support it", i, err)
					}
					all, err := whole.Put("w", w)
					if err != nil {
						return err
					}
					x, err = columns.Reshard(t.Context(), "w", all)
					if err != nil {
						return err
					}
				} else if err != nil {
					return err
				}
				out, err := columns.Run(t.Context(), map[string]*runtime.Array{"w": x})
				if err != nil {
					return err
				}
				got, err := columns.Get(t.Context(), out[0])
				if err != nil {
					return err
				}
				for k, v := range array.Data[float32](w) {
					if array.Data[float32](got)[k] != v*v {
						return fmt.Errorf("element %d is %v, want %v", k, array.Data[float32](got)[k], v*v)
					}
				}
				_, err = columns.Run(t.Context(), map[string]*runtime.Array{"w": split})
				want := fmt.Sprintf(`runtime: input w of double: the array is of the job of double and lies on ranks [%d] of the mesh "dp=2", want ranks [%d] of the mesh "tp=2", on which double runs; Session.Reshard moves it`, i, i)
				if err == nil || err.Error() != want {
					t.Errorf("process %d: %v, want %s", i, err, want)
				}
				return nil
			}))
		})
	}
}
