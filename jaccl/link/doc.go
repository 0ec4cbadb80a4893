// Package link declares the transport between the processes of a job: a Link carries
// bytes and knows nothing of operations; a Site sets up a link; and a Watch tells the
// ranks of each other's failures. Mix joins links connecting different pairs of ranks.
// SiteAmong sets up a link among some of the ranks, and LinkAmong makes it a link of the
// whole job, which Mix accepts.
//
// The transports are the packages below: tcp, shm, verbs and mpi.
//
// Begin with Link and Exchange, and with docs/extending.md, which writes a Link. This
// package does not interpret the bytes: package engine implements collectives with them.
package link
