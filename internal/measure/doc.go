// Package measure times the collectives of a job, as nccl-tests does: for every
// operation and size the time of one call, the algorithm bandwidth, which is the
// size by the time, and the bus bandwidth, which is what each rank's connection
// carries and can be compared with the hardware's whatever the number of ranks.
//
// A size is that of the whole buffer of a rank: what is summed, what is gathered in
// all, what is scattered in all, what a rank sends to all.
package measure
