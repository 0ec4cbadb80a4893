//go:build peers

package mesh

import (
	"fmt"
	"os"
	"testing"
)

// TestJACCL runs jobs in which some ranks are JACCL's own, 1 in the name, over
// so many wires.
func TestJACCL(t *testing.T) {
	other := os.Getenv("GOMOE_JACCL_RANK")
	if other == "" {
		t.Fatal("no program in GOMOE_JACCL_RANK; see testdata/rank.cpp")
	}
	for _, job := range []string{"01", "10", "011", "100", "010", "0101", "1000", "1110", "1011", "01 2", "10 3", "011 2", "100 3", "010 4", "1011 2", "0100 3"} {
		t.Run(job, func(t *testing.T) {
			theirs, wires := job, 1
			if n, err := fmt.Sscan(job, &theirs, &wires); n == 0 {
				t.Fatal(err)
			}
			others := map[int]string{}
			for r, c := range theirs {
				if c == '1' {
					others[r] = other
				}
			}
			p := startProcesses(t, "program", "", len(theirs), wires, others)
			p.start(t)
			p.compare(t)
		})
	}
}
