package kernels

import "github.com/gomoe/gomoe/lowering/ops"

// epZones counts the rows of each of a rank's experts.
func epZones() Kernel {
	return Kernel{
		Name: "ep_zones", Serves: []ops.Op{ops.EPZones}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:       "counts the rows of each of the rank's experts",
		Build:     zonesProgram,
		Functions: []Function{{"ep_zones", 32, 0}},
	}
}

func zonesProgram(in *Instr) (*Program, error) {
	g, err := groupOf(in)
	if err != nil {
		return nil, err
	}
	return &Program{
		Launches: []Launch{{
			Source: Source{File: "ep_zones.metal"}, Function: "ep_zones",
			Args:   []Arg{In(0), Out(0), Status(), g.sources, g.params},
			Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1},
		}},
		Fault: g.fault,
	}, nil
}
