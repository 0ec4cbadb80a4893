package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/sharding"
)

// StatusMisfit is the exit status of a rank that does not fit a job of this many ranks
// but may fit a smaller one: gomoe launch -min-hosts then starts a smaller one. It is
// EX_CONFIG of sysexits.h.
const StatusMisfit = 78

// MisfitError reports that the number of ranks of a job does not fit its mesh, or the
// placement on it.
type MisfitError struct{ Err error }

func (m *MisfitError) Error() string { return m.Err.Error() }
func (m *MisfitError) Unwrap() error { return m.Err }

// StatusElsewhere is the exit status of a rank ending because another one has failed.
// gomoe launch then looks for the failure among the other ranks. It is EX_TEMPFAIL of
// sysexits.h.
const StatusElsewhere = 75

// ElsewhereError is the error of a process ending because another one has failed.
type ElsewhereError struct{ What string } // the failed operation, such as "could not write"

func (e *ElsewhereError) Error() string {
	return "another process " + e.What + "; its own message says why"
}

// Status returns the exit status of a program ending with err: 0 without one,
// StatusMisfit for a *MisfitError, StatusElsewhere if every error that it wraps
// originates on other ranks, like an *ElsewhereError or a *jaccl.Error blaming other
// ranks, else 1.
func Status(err error) int {
	var misfit *MisfitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &misfit):
		return StatusMisfit
	case elsewhere(err):
		return StatusElsewhere
	}
	return 1
}

// elsewhere reports whether an error originates on other ranks alone.
func elsewhere(err error) bool {
	switch e := err.(type) {
	case *ElsewhereError:
		return true
	case *jaccl.Error:
		return len(e.Blame) > 0 && !slices.Contains(e.Blame, e.Rank)
	case interface{ Unwrap() error }:
		return elsewhere(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !elsewhere(err) })
	}
	return false
}

// ParseMesh reads a mesh like sharding.FitMesh, for the job described by the environment:
// in "dp=*,ep=2" the number of ranks determines the length of dp, which is 1 if all ranks
// are in this process. It is a *MisfitError if the ranks do not divide over the other
// axes. Other meshes do not depend on the environment. getenv reads it; nil is os.Getenv.
func ParseMesh(text string, getenv func(string) string) (sharding.Mesh, error) {
	if !strings.Contains(text, "=*") {
		return sharding.ParseMesh(text)
	}
	if getenv == nil {
		getenv = os.Getenv
	}
	job, err := environ.Detect(getenv)
	if err != nil {
		return sharding.Mesh{}, err
	}
	m, err := sharding.FitMesh(text, job.Size)
	if err != nil {
		err = &MisfitError{err}
	}
	return m, err
}

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
