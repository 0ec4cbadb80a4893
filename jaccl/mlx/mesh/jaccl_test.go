//go:build peers

package mesh

import (
	"os"
	"testing"
)

// TestInteropWithJACCL runs jobs in which some ranks are JACCL's own.
func TestInteropWithJACCL(t *testing.T) {
	other := os.Getenv("GOMOE_JACCL_RANK")
	if other == "" {
		t.Fatal("no program in GOMOE_JACCL_RANK; see testdata/rank.cpp")
	}
	for _, theirs := range []string{"01", "10", "011", "100", "010", "0101", "1000", "1110", "1011"} {
		t.Run(theirs, func(t *testing.T) {
			others := map[int]string{}
			for r, c := range theirs {
				if c == '1' {
					others[r] = other
				}
			}
			p := startProcesses(t, "program", "", len(theirs), others)
			p.start(t)
			p.compare(t)
		})
	}
}
