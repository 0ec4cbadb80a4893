//go:build linux && native

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/sharding"
)

// All that a GPU would compile for a training step compiles: the kernels' files and the
// functions made for the plan.
func TestDeviceSources(t *testing.T) {
	for _, d := range []string{"f32", "bf16"} {
		t.Run(d, func(t *testing.T) {
			args, _ := tiny(t, "-layers", "1", "-dtype", d)
			c, o, _ := setup(t, args...)
			mesh, err := sharding.ParseMesh("ep=2")
			require.NoError(t, err)
			p, cfg := planned(t, c, o, mesh)
			cfg.Target = kernels.Metal{}
			plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
			require.NoError(t, err)
			launched := metaltest.Builds(t, plan)
			made := 0
			for f := range launched {
				if strings.HasPrefix(f, "flat") {
					made++
				}
			}
			require.Positive(t, made, "functions made for the plan: %v", launched)
		})
	}
}
