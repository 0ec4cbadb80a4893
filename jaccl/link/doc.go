// Package link declares what carries bytes between the processes of a job: a Link, which
// knows nothing of operations; a Site, with which a link is set up; and a Watch, which tells
// the ranks of each other's failures. Mix joins links that connect different pairs of ranks.
// With SiteAmong a link is set up among some of the ranks, and LinkAmong makes it a link of
// the whole job, which Mix accepts.
//
// The transports are the packages below: tcp, shm, verbs and mpi.
//
// Begin with Link and Exchange, and with docs/extending.md, which writes a Link. This
// package does not know what the bytes mean: package engine makes collectives of them.
package link
