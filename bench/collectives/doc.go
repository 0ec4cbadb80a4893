// Command collectives measures gomoe's transports against Open MPI and MLX's ring on this machine,
// in one run, and writes a table and a plot:
//
//	go run ./bench/collectives                    two and four ranks, all that is installed
//	go run ./bench/collectives -n 2 -rounds 5
//
// In each round every side in turn starts its ranks, and times every operation and size in the same
// way (see internal/measure). A row is the median over the rounds. Open MPI runs a C program
// compiled for the run, once through shared memory and once through TCP. MLX runs a Python program;
// it is skipped unless the Python package mlx is installed.
package main
