package world

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/sharding"
)

// machines has the machines of the ranks of a job of several processes.
type machines struct {
	of    []int    // by rank, the first rank on the same machine
	hosts []string // by rank, the machine's name for messages
}

// meetMachines exchanges among all ranks which of them share a machine.
func meetMachines(ctx context.Context, site link.Site) (machines, error) {
	all, err := site.Gather(ctx, "gomoe: the first rank on this machine", []byte(strconv.Itoa(neighbours(site)[0])))
	if err != nil {
		return machines{}, err
	}
	m := machines{make([]int, len(all)), make([]string, len(all))}
	for r, b := range all {
		if m.of[r], err = strconv.Atoi(string(b)); err != nil {
			return machines{}, fmt.Errorf("gomoe: rank %d names its machine %s, want a rank", r, quoted.Text(b))
		}
		m.hosts[r] = site.Host(r)
	}
	return m, nil
}

// fit returns an error if the mesh requires ranks on one machine running on several. On
// one machine any mesh may be tried.
func (h machines) fit(m sharding.Mesh) error {
	if !slices.ContainsFunc(h.of, func(first int) bool { return first != h.of[0] }) {
		return nil
	}
	for _, a := range m.Axes {
		if a.Machines < 2 {
			continue
		}
		_, within := sharding.Levels(a.Name)
		for r := range h.of {
			for _, other := range m.Group(r, []string{within}) {
				if h.of[other] != h.of[r] {
					return fmt.Errorf("gomoe: the mesh %q puts the ranks %d and %d on one of the %d machines of %s, and they run on two, %s and %s; "+
						"start the ranks machine by machine, as gomoe launch -hostfile does, give their order with -order, or write %s=%d", m, r, other, a.Machines, a.Name, h.hosts[r], h.hosts[other], a.Name, a.Size)
				}
			}
		}
	}
	return nil
}
