package kernels

import "github.com/gomoe/gomoe/lowering/ops"

// epRecvOrder computes the destination row of each row that a rank receives.
func epRecvOrder() Kernel {
	return Kernel{
		Name: "ep_recv_order", Serves: []ops.Op{ops.EPRecvOrder}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:       "gives every row that arrives its place in the zones of the rank's experts",
		Build:     recvOrderProgram,
		Functions: []Function{{"ep_recv_order", recvThreads, threadgroupMemory}},
	}
}

const (
	recvThreads = 256
	// recvEach is the number of rows per threadgroup. A threadgroup first scans all experts of all
	// members, which takes about as long as handling the rows.
	recvEach = 2048
)

func recvOrderProgram(in *Instr) (*Program, error) {
	g, err := groupOf(in)
	if err != nil {
		return nil, err
	}
	mem, err := memory(2*g.members*g.local+g.local+2, "runs of rows")
	if err != nil {
		return nil, err
	}
	rows := in.Results[0].Type.Len()
	return &Program{
		Launches: []Launch{{
			Source: Source{File: "ep_recv_order.metal"}, Function: "ep_recv_order",
			Args:   []Arg{In(0), Out(0), Status(), g.sources, g.params, Params(recvEach)},
			Memory: mem, Groups: [3]int{max(1, (rows+recvEach-1)/recvEach), 1, 1}, Threads: [3]int{recvThreads, 1, 1},
		}},
		Fault: g.fault,
	}, nil
}
