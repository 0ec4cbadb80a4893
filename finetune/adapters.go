package finetune

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
)

// adaptersOf returns the adapters that a model has. Without targets they are the usual ones; else it is an error if a target
// is no matrix of the model.
func adaptersOf(m *models.Model, c *checkpoint.Checkpoint, l *nn.LoRA) (list []nn.Adapter, err error) {
	given := l.Targets
	if len(given) == 0 {
		l.Targets = Usual()
	}
	if err := l.Check(); err != nil {
		return nil, err
	}
	_, err = graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: models.DType(c), Stored: models.Stored(c), LoRA: l})
		out := m.Forward(s, t.Input("tokens", graph.I32, 1, 1), &nn.Step{})
		list = s.Adapters()
		return []*graph.Value{out}
	})
	if err != nil {
		return nil, err
	}
	var used []string
	for _, t := range l.Targets {
		matches := func(a nn.Adapter) bool { return nn.Matches(t, a.Name) }
		if slices.ContainsFunc(list, matches) {
			used = append(used, t)
		} else if len(given) > 0 {
			return nil, fmt.Errorf("%s: target %q is no matrix that can have an adapter; %s has, for instance, q_proj and experts.*.up_proj", c.Path, t, m.Family)
		}
	}
	if l.Targets = used; len(list) == 0 {
		return nil, fmt.Errorf("%s: none of %v is a matrix of the model; name targets", c.Path, Usual())
	}
	return list, nil
}

// reordered returns the parameters of adapters with the rows of heads in the order of Hugging Face's files instead of that of
// GGUF files, or with back the other way round. In most models both have the same order.
func reordered(m *models.Model, c *checkpoint.Checkpoint, arrays map[string]array.Array, back bool) map[string]array.Array {
	if !c.Config.GGUF() {
		return arrays
	}
	out := map[string]array.Array{}
	for name, a := range arrays {
		width := m.Rotated(nn.Param{Name: name})
		if out[name] = a; width == 0 || !strings.HasSuffix(name, nn.LoRAB) {
			continue
		}
		b := array.New(a.Type)
		for i := range a.Type.Shape[0] {
			at := i % width
			from := i - at + at%(width/2)*2 + at/(width/2)
			if back {
				copy(b.Rows(from, from+1).Bytes(), a.Rows(i, i+1).Bytes())
			} else {
				copy(b.Rows(i, i+1).Bytes(), a.Rows(from, from+1).Bytes())
			}
		}
		out[name] = b
	}
	return out
}

// merged returns what convert.Options.Change wants: rows of weights with those of Scale·B·A added.
func merged(l nn.LoRA, arrays map[string]array.Array) func(p nn.Param, expert, row int, rows array.Array) (array.Array, error) {
	return func(p nn.Param, expert, row int, rows array.Array) (array.Array, error) {
		base, ok := strings.CutSuffix(p.Name, "weight")
		a, adapted := arrays[base+nn.LoRAA]
		if !ok || !adapted {
			return rows, nil
		}
		b := arrays[base+nn.LoRAB]
		out := array.New(rows.Type.With(graph.F32))
		if err := array.Convert(out, rows); err != nil {
			return out, err
		}
		n, in, out32 := rows.Type.Shape[0], rows.Type.Shape[1], array.Data[float32](out)
		rank, all := l.Rank, p.Type.Shape[p.Type.Rank()-2]
		as, bs := array.Data[float32](a)[expert*rank*in:][:rank*in], array.Data[float32](b)[(expert*all+row)*rank:][:n*rank]
		shares := goruntime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		for k := range shares {
			wg.Go(func() {
				sum := make([]float64, in)
				for i := n * k / shares; i < n*(k+1)/shares; i++ {
					clear(sum)
					for r := range rank {
						x := float64(bs[i*rank+r])
						for j, y := range as[r*in:][:in] {
							sum[j] += float64(x * float64(y))
						}
					}
					for j, s := range sum {
						out32[i*in+j] = float32(float64(out32[i*in+j]) + float64(l.Scale()*s))
					}
				}
			})
		}
		wg.Wait()
		return out, nil
	}
}
