package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/snapshot"
)

// write writes the adapter or all weights, and the merged model. A run that was interrupted or has failed leaves no
// merged model, which would prevent resuming, because a run does not overwrite one.
func (t *tuning) write(ctx context.Context, run *train.Run, early bool) error {
	goruntime.GC() // frees memory left by the steps for the weights
	arrays, err := run.Weights(ctx)
	if err != nil || !t.first {
		return err
	}
	if t.o.All {
		if err := t.writeModel(ctx, arrays); err != nil {
			return err
		}
		t.say("the model is in %s", t.model())
		return nil
	}
	if err := peft.Write(t.o.Out, t.adapter(), t.adapters, models.Reordered(t.m, t.c, arrays, false)); err != nil {
		return err
	}
	t.say("the adapter is in %s", t.o.Out)
	if err := t.writeMLX(arrays); err != nil {
		return err
	}
	if t.o.Merge == "" {
		return nil
	}
	if early {
		t.say("the model with the adapter is not written to %s, as the run has ended early", t.o.Merge)
		return nil
	}
	o := t.merging()
	o.Change = collected(merged(t.o.LoRA, arrays))
	if err := convert.Model(ctx, t.o.Merge, t.c.Path, o); err != nil {
		return err
	}
	t.say("the model with the adapter is in %s", t.o.Merge)
	return nil
}

// merging returns the options for writing the merged model.
func (t *tuning) merging() convert.Options {
	return convert.Options{Layout: convert.LayoutOf(t.o.Merge), Type: t.o.MergeType, Families: []models.Family{t.m.Family}}
}

// model returns the folder for a model with all weights trained.
func (t *tuning) model() string { return filepath.Join(t.o.Out, lm.AllName) }

// writeModel writes the model with all weights trained, replacing one left by an earlier run that this run
// continues. The earlier one stays until the new one is complete.
func (t *tuning) writeModel(ctx context.Context, arrays map[string]array.Array) (err error) {
	scratch, remove, err := whole.Scratch(t.o.Out, "model")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	made := filepath.Join(scratch, "model")
	if err := convert.Model(ctx, made, t.c.Path, convert.Options{Layout: convert.Safetensors, Families: []models.Family{t.m.Family}, Change: collected(replaced(arrays))}); err != nil {
		return err
	}
	earlier := filepath.Join(scratch, "earlier")
	none := os.Rename(t.model(), earlier)
	if none != nil && !errors.Is(none, fs.ErrNotExist) {
		return none
	}
	if err := os.Rename(made, t.model()); err != nil {
		if none == nil {
			err = errors.Join(err, os.Rename(earlier, t.model()))
		}
		return err
	}
	return whole.Folder(t.model())
}

// writeMLX writes the adapter for mlx-lm.
func (t *tuning) writeMLX(arrays map[string]array.Array) error {
	mlx := t.m.Family.MLX
	for _, a := range t.adapters {
		if strings.HasSuffix(a.Name, ".kv_b_proj") || mlx.RouterAlone && strings.HasSuffix(a.Name, ".mlp.gate") {
			t.say("mlx-lm has no matrix %s, so there is no adapter for it", a.Name)
			return nil
		}
	}
	path := filepath.Join(t.o.Out, "mlx")
	if err := peft.WriteMLX(path, t.adapter(), t.adapters, models.Reordered(t.m, t.c, arrays, false), cmp.Or(mlx.Experts, "switch_mlp")); err != nil {
		return err
	}
	t.say("for mlx-lm it is in %s", path)
	return nil
}

// replaced returns a function for convert.Options.Change which substitutes trained weights.
func replaced(arrays map[string]array.Array) func(p nn.Param, expert, row int, rows array.Array) (array.Array, error) {
	return func(p nn.Param, expert, row int, rows array.Array) (array.Array, error) {
		a, ok := arrays[p.Name]
		if !ok || a.Type.DType != graph.F32 {
			return rows, fmt.Errorf("%s was not trained", p.Name)
		}
		size := a.Type.Bytes()
		for _, n := range a.Type.Shape[:a.Type.Rank()-rows.Type.Rank()+1] {
			size /= int64(n)
		}
		first := int64(row)
		if a.Type.Rank() > rows.Type.Rank() {
			first += int64(expert) * int64(a.Type.Shape[1])
		}
		out := rows.Type.With(graph.F32)
		return array.Over(out, a.Bytes()[first*size:][:out.Bytes()]), nil
	}
}

// change is the type of convert.Options.Change.
type change func(p nn.Param, expert, row int, rows array.Array) (array.Array, error)

// collectFrom is the number of bytes of rows changed between garbage collections.
const collectFrom = 16 << 20

// collected triggers garbage collections while writing a model. Next to a run's state, which is as large as several
// models, Go's collector would let garbage grow to the rows of all matrices before it starts, exceeding the memory
// that the run has announced.
func collected(f change) change {
	made := int64(0)
	return func(p nn.Param, expert, row int, rows array.Array) (array.Array, error) {
		if made += rows.Type.With(graph.F32).Bytes(); made > collectFrom {
			goruntime.GC()
			made = 0
		}
		return f(p, expert, row, rows)
	}
}

// saved describes checkpoints as a model with all weights trained, or as an adapter.
func (t *tuning) saved(params []nn.Param) (m *snapshot.Model, err error) {
	m = &snapshot.Model{}
	name := peft.TensorName
	if t.o.All {
		name = nameInFiles
		m.Files, err = convert.Describe(t.c, graph.F32, t.m.Family)
	} else {
		m.Files, err = peft.Describe(t.adapter(), t.adapters)
	}
	for _, p := range params {
		halves := 0
		if t.c.Config.GGUF() && (t.o.All || strings.HasSuffix(p.Name, nn.LoRAB)) {
			halves = t.m.Rotated(p)
		}
		m.Tensors = append(m.Tensors, parts.Tensor{Array: p.Name, Name: name(p.Name), Halves: halves})
	}
	return m, err
}

// nameInFiles returns a parameter's name in a folder of safetensors files, with a star for the number of an expert.
func nameInFiles(param string) string {
	if strings.Contains(param, "*") {
		return param
	}
	return models.MLXName(nn.Param{Name: param})
}

// adapter returns the adapter's description.
func (t *tuning) adapter() peft.Adapter {
	return peft.Adapter{LoRA: t.o.LoRA, Base: t.c.Path, Layout: t.m.Family.Adapters}
}
