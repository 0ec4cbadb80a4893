package mesh

import (
	"net"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// Options are a rank's place in a job of JACCL, and its settings.
type Options struct {
	rdma.Settings
	// Rank is the rank of this process. Devices has a row for every rank; a mesh has 2 to 8
	// ranks.
	Rank    int
	Devices hostfile.Devices
	// Coordinator is the IPv4 address, host:port, of rank 0, where it listens and the
	// others connect. Ranks do not prove their identity: a stranger sending a rank of the
	// job is taken for that rank. Other strangers are turned away.
	Coordinator string
	// Conns are connections with the other ranks, by rank, if the ranks have met before.
	// They are used for the side channel instead of Coordinator, and Connect owns them. Nil
	// means that Coordinator is used.
	Conns []net.Conn
	// FramesOnly sends every frame as a message of its own, as JACCL does on macOS before
	// 26.3. All ranks must agree. A rank on such a system always does so.
	FramesOnly bool
	// Unchecked omits the sum of all ranks at the end of Connect; see CheckCount.
	Unchecked bool
	// Deadline is the time that an operation waits without receiving anything; 0 means
	// jaccl.DefaultDeadline.
	Deadline time.Duration
}

func (o Options) deadline() time.Duration {
	if o.Deadline == 0 {
		return jaccl.DefaultDeadline
	}
	return o.Deadline
}
