// Package link says what carries bytes between the processes of a job: a Link, which knows
// nothing of operations; a Site, with which a link is set up; and a Watch, which tells the
// ranks of each other's failures. Mix joins links that carry different pairs of ranks, and
// SiteAmong and LinkAmong make one of a part of a job.
//
// The transports are the packages below: tcp, shm, verbs and mpi.
//
// Begin with Link and Exchange, and with docs/add-a-transport.md, which writes a Link. What
// bytes mean is not known here: package engine makes collectives of them.
package link
