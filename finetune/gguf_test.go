package finetune

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/convert"
)

// A GGUF file of a family whose heads have their rows in another order there gives the adapter that the folder gives, begins
// with it, and is merged with it. Its heads have 6 rows: with 4, the order is its own inverse.
func TestGGUF(t *testing.T) {
	folder := folderOf(t, "llama")
	configure(t, folder, plainPositions)
	file := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, convert.Model(context.Background(), file, folder, convert.Options{Layout: convert.GGUF}))
	adapter := func(model string, o Options) (map[string]array.Array, Result) {
		r := run(t, model, o)
		a, err := peft.Open(o.Out, peft.Layout{})
		require.NoError(t, err)
		c, m, _ := open(t, model)
		l := a.LoRA
		adapters, err := adaptersOf(m, c, &l)
		require.NoError(t, err)
		all, err := a.Arrays(adapters)
		require.NoError(t, err)
		for name, x := range all {
			y := array.New(x.Type)
			copy(y.Bytes(), x.Bytes())
			all[name] = y
		}
		require.NoError(t, a.Close())
		return all, r
	}
	o, other := options(t), options(t)
	o.Steps, o.Rate = 3, 0.01
	other.Steps, other.Rate, other.Data, other.HeldOut = o.Steps, o.Rate, o.Data, o.HeldOut
	other.Merge = filepath.Join(t.TempDir(), "merged")
	want, whole := adapter(folder, o)
	got, r := adapter(file, other)
	require.InDelta(t, whole.After, r.After, 1e-4)
	for name, x := range want {
		require.InDeltaSlice(t, array.Data[float32](x), array.Data[float32](got[name]), 2e-3, name)
	}
	more := options(t)
	more.From, more.Steps = o.Out, 1
	require.InDelta(t, whole.After, run(t, file, more).Before, 1e-4)
	usedLike(t, file, other.Out, other.Merge)
	more = options(t)
	more.Steps = 1
	require.InDelta(t, whole.After, run(t, other.Merge, more).Before, 1e-4)
}
