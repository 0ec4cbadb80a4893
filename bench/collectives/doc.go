// Command collectives measures gomoe's transports against Open MPI and MLX's ring on
// this machine, in one run, and writes a table and a plot:
//
//	go run ./bench/collectives                    two and four ranks, all that is installed
//	go run ./bench/collectives -n 2 -rounds 5
//
// In each round every side in turn starts its ranks, and times every operation and
// size in the same way (see internal/measure); a row is the median of its rounds. Open
// MPI runs a C program that is compiled for the run, through shared memory and
// through TCP; MLX a Python one, where `pip install mlx` has been.
package main
