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

// adaptersOf returns the adapters of a model. Without targets, it uses the targets of Usual; otherwise it is an
// error if a target matches no matrix of the model.
func adaptersOf(m *models.Model, c *checkpoint.Checkpoint, l *nn.LoRA) (list []nn.Adapter, err error) {
	if len(l.Targets) > 0 {
		if err := l.Check(); err != nil {
			return nil, err
		}
		return models.AdaptersOf(m, c, *l)
	}
	l.Targets = Usual()
	if err := l.Check(); err != nil {
		return nil, err
	}
	list, err = models.AdaptersOf(m, c, *l)
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: none of %v is a matrix of the model; name targets (%w)", c.Path, Usual(), err)
	}
	l.Targets = slices.DeleteFunc(l.Targets, func(t string) bool {
		return !slices.ContainsFunc(list, func(a nn.Adapter) bool { return nn.Matches(t, a.Name) })
	})
	return list, nil
}

// merged returns a function for convert.Options.Change which adds Scale·B·A to rows of weights.
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
