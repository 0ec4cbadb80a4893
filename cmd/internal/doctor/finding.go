package doctor

import (
	"fmt"
	"strings"
)

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
