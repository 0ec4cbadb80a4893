// Command moe_lm trains a byte-level mixture-of-experts language model on real
// text, on a mesh of ranks in this process.
//
//	go run ./examples/moe_lm                    # four ranks, mesh dp=2,ep=2
//	go run ./examples/moe_lm -mesh dp=1,ep=8    # the same model, placed otherwise
//	go run ./examples/moe_lm -check             # one rank against the mesh
//
// The model is in model.go, from top to bottom; the step that trains it is in
// step.go; neither knows the mesh.
package main
