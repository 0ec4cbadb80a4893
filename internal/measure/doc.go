// Package measure times the collectives of a job, like nccl-tests. For every operation
// and size it gives the time of one call; the algorithm bandwidth, which is the size
// divided by the time; and the bus bandwidth, which is the traffic of each rank's
// connection. The bus bandwidth can be compared with the hardware's bandwidth for any
// number of ranks.
//
// A size is the size of a rank's whole buffer: the data summed, gathered, scattered or
// sent by a rank. Begin with Run.
package measure
