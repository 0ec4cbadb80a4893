// Package gomoe compiles programs for meshes of ranks and runs them, in this process or
// with one process per rank. It ties the packages below it together; each can be used by
// itself.
//
// Begin with Parse or graph.Trace, which make a program, and with Run, which runs it
// once. Open keeps arrays on their ranks between steps, as training does. Compile returns
// the plan without running it. The operations of programs are in package primitives,
// derivatives in vjp, meshes and placements in sharding, and jobs of several processes in
// world.
//
// The package has no models, training loop or weight files: see packages models, train
// and checkpoint. Package generate writes texts.
package gomoe
