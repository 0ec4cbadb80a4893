// Package train makes training steps: the gradient of a model's loss, an optimiser that is composed of
// transformations, and the state that stays on its ranks from step to step.
//
//	p, err := train.Trace("step", train.Config{
//		Optimizer: train.Chain(train.ClipByGlobalNorm(1), train.AdamW(train.AdamWOptions{Decay: 0.1})),
//	}, func(s *nn.Scope) (loss *graph.Value, results []*graph.Value) { … })
//	run, err := train.Open(ctx, p, gomoe.Config{Mesh: mesh})
//	err = run.Init(ctx, 1)
//	out, err := run.Step(ctx, 1, train.Cosine(3e-3, 100, 1500, 0.1)(1), inputs)
//
// A step is one program, whose state is donated by name. It knows no mesh; Open places it, and Config.Zero splits
// state over the ranks that split the batch.
//
// A Loop does the steps of a run: batches, held-out loss, metrics and pictures, checkpoints, and going on from them.
// Package report has what it writes, package snapshot the state that it saves.
package train
