// Command moe_lm trains a byte-level mixture-of-experts language model on real
// text, on a mesh of ranks, in this process or in one each.
//
//	go run ./examples/moe_lm                    # four ranks, mesh dp=2,ep=2
//	go run ./examples/moe_lm -mesh dp=1,ep=8    # the same model, placed otherwise
//	go run ./examples/moe_lm -check             # one rank against the mesh
//	go run ./examples/moe_lm -dtype bf16        # mixed precision
//	go run ./examples/moe_lm -device metal      # kernels on Apple's GPU, on a Mac
//	go run ./examples/moe_lm -help              # everything else
//
//	go run ./cmd/gomoe launch -n 4 -- go run ./examples/moe_lm    # four processes, the same numbers
//
// The model is in model.go, from top to bottom; the step that trains it is in
// step.go; neither knows the mesh. params.go says where each weight lies on it,
// trainer.go runs steps, train.go a training, and check.go the comparison.
//
// With -dtype bf16, activations and what they are multiplied with are bf16: the
// weights are rounded for each step, and stay f32 themselves, as do their gradients
// from there on, AdamW's moments, the router, the logits and all losses.
//
// The mesh does not change what is learned: the loss of the first step has the
// same bits on every mesh without a tp axis, and later losses differ by the
// order in which gradients are summed over ranks (in bf16, what a rank adds is
// rounded to it). On one mesh, a run repeated
// gives the same bits, on any number of processors.
package main
