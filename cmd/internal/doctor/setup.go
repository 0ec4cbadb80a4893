package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

// Setup describes the job to examine.
type Setup struct {
	Hosts *hostfile.Hosts // nil means this machine alone
	// Transport is the transport of the job; empty means the hostfile's backend, or tcp without
	// one.
	Transport string
	Ranks     int // per host; 0 means 1
}

// transport returns the transport of the job.
func (s Setup) transport() string {
	if s.Transport != "" {
		return s.Transport
	}
	if s.Hosts != nil && s.Hosts.Backend != "" {
		return s.Hosts.Backend
	}
	return "tcp"
}

// known returns the transport's properties, the zero Transport if its name is unknown.
func (s Setup) known() world.Transport { return world.TransportOf(s.transport()) }

// Check returns all findings, the worst first. It asks the machines only if the files have no
// mistakes that would make the answers meaningless; it asks all machines concurrently. It returns
// soon after ctx ends, with findings for the machines that have not answered.
func Check(ctx context.Context, s Setup, p Prober) Report {
	var r Report
	if s.Hosts != nil {
		s.names(&r)
		s.addresses(&r)
		s.backend(&r)
		s.matrix(&r)
	}
	machines := s.ask(ctx, p, &r)
	s.machines(machines, &r)
	s.pairs(machines, &r)
	s.clocks(machines, &r)
	s.apple(machines, &r)
	slices.SortStableFunc(r, func(a, b Finding) int { return severity(a.Level) - severity(b.Level) })
	return r
}

func severity(l Level) int { return slices.Index([]Level{Wrong, Warning, Note}, l) }

// hosts returns the hosts' names.
func (s Setup) hosts() []string {
	if s.Hosts == nil {
		return []string{"localhost"}
	}
	var names []string
	for _, h := range s.Hosts.Hosts {
		names = append(names, h.SSH)
	}
	return names
}

// Level is the severity of a finding.
type Level string

// The levels: the job does not run, it may run badly, or a fact worth knowing.
const (
	Wrong   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is a fact that a job's owner should know.
type Finding struct {
	Level Level    `json:"level"`
	Hosts []string `json:"hosts,omitempty"` // one host or a pair; none for the set-up as a whole
	What  string   `json:"what"`
	Fix   string   `json:"fix"`
}

// String returns two lines.
func (f Finding) String() string {
	where := ""
	switch len(f.Hosts) {
	case 0:
	case 1:
		where = f.Hosts[0] + ": "
	default:
		where = strings.Join(f.Hosts, " and ") + ": "
	}
	return fmt.Sprintf("%-8s %s%s\n         %s", f.Level, where, f.What, f.Fix)
}

// Report is all findings, sorted by level, the worst first.
type Report []Finding

// Wrong reports whether a job would not run.
func (r Report) Wrong() bool {
	for _, f := range r {
		if f.Level == Wrong {
			return true
		}
	}
	return false
}

func (r *Report) add(l Level, fix, what string, hosts ...string) {
	*r = append(*r, Finding{l, hosts, what, fix})
}
