// Command moe_lm trains a byte-level mixture-of-experts language model on real text, on a mesh
// of ranks. The ranks are in this process or in one process each.
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
// The model is in model.go, from top to bottom, and does not know the mesh. sizes.go has its flags, and files.go what its
// weights are called in files. Everything else is package lm's, which trains any such model: copy the folder into a module of
// your own, and change the model.
//
// With -dtype bf16, activations and the weights that they are multiplied with are bf16. The
// weights themselves stay f32 and are rounded for each step. The gradients of the f32 weights,
// AdamW's moments, the router, the logits and all losses are f32 too.
//
// With -save-every, checkpoints are left, from which -resume goes on: a run that was killed and resumed ends
// with the bits of one that was not.
//
// The mesh does not change what is learned. The loss of the first step has the same bits on
// every mesh without a tp axis. Later losses differ only because gradients are summed over
// ranks in another order; in bf16, what a rank adds is also rounded to bf16. On one mesh, a
// repeated run gives the same bits, on any number of processors.
package main
