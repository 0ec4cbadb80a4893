package world_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/world"
)

// Ranks of a ring find each other without a file of addresses, again after a Reset,
// and what MLX's ring has not is an error.
func TestRing(t *testing.T) {
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfg := world.Config{Mode: world.PerProcess, Transport: "ring"}
			at := address(t)
			ok(t, worlds(t, n, func(i int) world.Config {
				c := cfg
				c.Getenv = vars(job(i, n, at))
				return c
			}, func(i int, w *world.World) error {
				for range 2 {
					info, err := w.Info()
					if err != nil {
						return err
					}
					if info.Transport != "ring" || info.Rank != i || info.Size != n {
						t.Errorf("process %d of %d: %+v", i, n, info)
					}
					comms, err := w.Communicators()
					if err != nil {
						return err
					}
					b := binary.NativeEndian.AppendUint32(nil, uint32(1)<<i)
					c := collective.Call{Op: "all_sum", DType: graph.U32, Bytes: 4}
					if err := comms[0].World().AllSum(t.Context(), c, b, b); err != nil {
						return err
					}
					if sum := binary.NativeEndian.Uint32(b); sum != 1<<n-1 {
						t.Errorf("process %d of %d: sum %d, want %d", i, n, sum, 1<<n-1)
					}
					c.Op = "broadcast"
					if err := comms[0].World().Broadcast(t.Context(), c, 0, b); !errors.Is(err, jaccl.ErrUnsupported) {
						t.Errorf("process %d of %d: broadcast: %v, want that it is unsupported", i, n, err)
					}
					if err := same(t, w, i, n); err != nil {
						return err
					}
					if err := w.Reset(); err != nil {
						return err
					}
					c2 := cfg
					c2.Getenv = vars(job(i, n, at))
					if err := w.Setup(t.Context(), c2); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// Tokens that are split over the experts' axis need an operation that MLX's ring does not
// have. That is an error when the job is opened, before anything is computed.
func TestRingRefusesSplitTokens(t *testing.T) {
	p, place, _ := layered(t)
	mesh := meshOf(t, "ep=2")
	ok(t, worlds(t, 2, func(int) world.Config {
		return world.Config{Mode: world.PerProcess, Transport: "ring", Mesh: mesh}
	}, func(i int, w *world.World) error {
		j, err := gomoe.Open(t.Context(), p, gomoe.Config{World: w, Mesh: *mesh, Place: place})
		if err == nil {
			return errors.Join(fmt.Errorf("process %d: the job is opened", i), j.Close())
		}
		for _, want := range []string{"has all_to_all over [ep]", "MLX's ring has no all_to_all", "keep tokens whole over the experts' axis", "use the transport tcp, shm, verbs or mpi"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("process %d: %v, want %q", i, err, want)
			}
		}
		if !errors.Is(err, jaccl.ErrUnsupported) {
			t.Errorf("process %d: %v, want that it is unsupported", i, err)
		}
		return nil
	}))
}
