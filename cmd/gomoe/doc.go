// Gomoe works on programs in their text form: it runs them on a mesh of ranks in this process,
// differentiates and checks them, shows their placement and cost, and formats them. It also starts
// jobs of several processes.
//
//	gomoe run   FILE  run a program on .npy files
//	gomoe grad  FILE  print the program with its derivative
//	gomoe place FILE  print the program with the placement of every value
//	gomoe plan  FILE  print what every rank runs, with its memory and communication
//	gomoe check FILE  compare derivatives with differences
//	gomoe fmt   FILE  print the program in canonical form
//	gomoe doc         print the reference of all primitives
//
//	gomoe launch -n 4 -- COMMAND   start a command once per rank, here or on several hosts
//	gomoe doctor                   look for problems of a job's machines
//	gomoe bench collectives        time collectives and expert exchanges
//	gomoe bench kernels            time the kernels for Apple's GPUs and the host's, and compare results
//	gomoe kernels                  list the kernels for Apple's GPUs
//	gomoe trace merge FILE...      merge the traces of a job's processes
//	gomoe trace flight FILE...     print the last operation of each rank of a failed job
//
// FILE is - for standard input. The exit status is 0, or 1 for a program that is wrong or fails, or
// 2 for a command line that is wrong. Mistakes in a program are reported with their file and line.
//
// GOMOE_KERNELS chooses the kernels. gomoe doctor prints the variables of launchers and of devices.
// gomoe bench collectives reads the variables of launchers to measure the job described by them.
// gomoe launch passes the environment on to ranks on this machine, and returns the exit status of
// the first rank that failed.
package main

//go:generate go test . -run Reference|Builders -update
