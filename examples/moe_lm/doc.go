// Command moe_lm trains a byte-level mixture-of-experts language model on real text, on a mesh of ranks. The ranks are in
// this process or in one process each.
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
// The model is in model.go, from top to bottom, and does not depend on the mesh. sizes.go has its flags, and files.go the
// names of its weights in files. Everything else is in package lm, which trains any such model: copy the folder into a module
// of your own, and change the model.
//
// With -dtype bf16, activations and the weights multiplying them are bf16. The stored weights stay f32 and are rounded for
// each step. The gradients of the f32 weights, AdamW's moments, the router, the logits and all losses are f32, too.
//
// With -save-every, the run writes checkpoints, and -resume continues from them: resuming a killed run ends with the same
// bits as an uninterrupted run.
//
// The mesh does not change the result of training. The loss of the first step has the same bits on every mesh without a tp
// axis. Later losses differ only because gradients are summed over ranks in another order; in bf16, a rank's partial sums are
// also rounded to bf16. On one mesh, repeating a run gives the same bits, on any number of processors.
package main
