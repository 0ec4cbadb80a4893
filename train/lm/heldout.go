package lm

import (
	"context"
	"errors"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train"
)

// Parts returns the arrays of a batch, each process reading only its ranks' rows. Rows from last on get weight 0.
func Parts(b data.Batch, last int, inputs ...string) train.Parts {
	in := train.Parts{}
	for _, name := range inputs {
		in[name] = b.Fill(name)
	}
	weights := in[data.Weights]
	in[data.Weights] = func(p runtime.Part) error {
		err := weights(p)
		if count := max(last-p.Start[0], 0); count < p.Type.Shape[0] {
			clear(array.Data[float32](p.Array)[count*p.Type.Shape[1]:])
		}
		return err
	}
	return in
}

// HeldOut returns a function measuring the loss, in nats per token, over batches of the given number of rows. It
// uses each sequence once, or only the first most batches if most is not 0. inputs are the arrays read by the
// evaluation, which must return the results of Step.Evaluation.
func HeldOut(b *data.Batches, rows, most int, inputs ...string) func(context.Context, *train.Evaluation) (float64, error) {
	return func(ctx context.Context, e *train.Evaluation) (float64, error) {
		sum, count, n := 0.0, 0.0, int(b.Sequences())
		for step := 0; step*rows < n && (most == 0 || step < most); step++ {
			x, err := e.Scalars(ctx, Parts(b.Step(int64(step)), n-step*rows, inputs...), "loss", train.WeightResult)
			if err != nil {
				return 0, err
			}
			sum, count = sum+x[0]*x[1], count+x[1]
		}
		if count == 0 {
			return 0, errors.New("the held-out text has no token that is to be predicted")
		}
		return sum / count, nil
	}
}
