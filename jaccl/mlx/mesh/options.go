package mesh

import (
	"net"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// Options are a rank's place in a job of JACCL, and how it takes part.
type Options struct {
	rdma.Settings
	// Rank is this process's, and the matrix has a row for every rank: a mesh of 2 to 8.
	Rank    int
	Devices hostfile.Devices
	// Coordinator is the address, host:port of IPv4, on which rank 0 listens and to
	// which the others connect. Nobody proves anything there: a stranger that says a rank
	// of the job is taken for it, all others are closed.
	Coordinator string
	// Conns, if there are any, are connections with the other ranks, by rank, which Connect
	// owns: the side channel of a job whose ranks have met, where Coordinator is not used.
	Conns []net.Conn
	// FramesOnly sends every frame as a message of its own, as JACCL does on macOS before
	// 26.3. All ranks have to do the same. A rank that itself runs on such a system does so
	// in any case.
	FramesOnly bool
	// Unchecked leaves out the sum with which Connect ends, in which all ranks take part; see
	// CheckCount.
	Unchecked bool
	// Deadline is how long an operation waits while nothing comes; 0 for
	// jaccl.DefaultDeadline.
	Deadline time.Duration
}

func (o Options) deadline() time.Duration {
	if o.Deadline == 0 {
		return jaccl.DefaultDeadline
	}
	return o.Deadline
}
