package finetune

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/sharding"
)

// With Exact the losses and the adapter have the bits of one rank on every mesh.
func TestExact(t *testing.T) {
	model, first := folderOf(t, "olmoe"), options(t)
	var want string
	var wanted Result
	for _, mesh := range []string{"", "dp=2,ep=2", "ep=3", "ep=8:5/2/1", "dp=1,ep=0-0/1-3/4-7"} {
		o := options(t)
		o.Data, o.HeldOut, o.LoRA.Dropout = first.Data, first.HeldOut, 0.1
		o.Rows, o.Steps, o.Exact = 8, 3, gomoe.ExactBlocks
		var err error
		o.Mesh, err = sharding.ParseMesh(mesh)
		require.NoError(t, err)
		r := run(t, model, o)
		text, err := os.ReadFile(filepath.Join(o.Out, peft.FileName))
		require.NoError(t, err)
		if mesh == "" {
			want, wanted = string(text), r
			continue
		}
		require.Equal(t, wanted.Before, r.Before, mesh)
		require.Equal(t, wanted.After, r.After, mesh)
		require.True(t, want == string(text), "%s: the adapter has other bits than on one rank", mesh)
	}
}
