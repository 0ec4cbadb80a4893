// Package measure times the collectives of a job, as nccl-tests does. For every
// operation and size it gives the time of one call; the algorithm bandwidth, which
// is the size divided by the time; and the bus bandwidth, which is what each rank's
// connection carries. The bus bandwidth can be compared with the hardware's
// bandwidth for any number of ranks.
//
// A size is the size of a rank's whole buffer: all that is summed, all that is
// gathered, all that is scattered, or all that a rank sends. Begin with Run.
package measure
