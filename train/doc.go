// Package train builds training steps: the gradient of a model's loss, an optimiser composed of transformations,
// and the state that stays on its ranks between steps.
//
//	p, err := train.Trace("step", train.Config{
//		Optimizer: train.Chain(train.ClipByGlobalNorm(1), train.AdamW(train.AdamWOptions{Decay: 0.1})),
//	}, func(s *nn.Scope) (loss *graph.Value, results []*graph.Value) { … })
//	run, err := train.Open(ctx, p, gomoe.Config{Mesh: mesh})
//	err = run.Init(ctx, 1)
//	out, err := run.Step(ctx, 1, train.Cosine(3e-3, 100, 1500, 0.1)(1), inputs)
//
// A step is one program that donates its state by name. It is independent of the mesh: Open places it, and
// Config.Zero shards state over the data-parallel ranks.
//
// A Loop drives a run: it feeds batches, measures the held-out loss, writes metrics and pictures, saves
// checkpoints, and resumes from them. Package report formats its figures, package snapshot stores the state.
//
// Begin with Trace and Open, or with Loop for a whole run. Language models have package train/lm.
package train
