// Package gomoe compiles programs for meshes of ranks and runs them, in this
// process or in one per rank. It ties the packages below it together; each can be used by itself.
//
// Begin with Parse, or with graph.Trace, which make a program, and with Run, which runs it
// once. Open keeps arrays on their ranks from step to step, as training does; Compile returns
// the plan and runs nothing. The operations of programs are in package primitives,
// derivatives in vjp, meshes and placements in sharding, jobs of several processes in world.
//
// The package has no models, no training loop and no files of weights: these are in models,
// train and checkpoint, and texts are written by generate.
package gomoe
