package lowering

import (
	"fmt"
	"testing"

	"github.com/gomoe/gomoe/graph"
)

// BenchmarkSchedule schedules plans of which the device has one half and the host the other,
// and neither touches what the other does. ns/instr stays where it is if that takes time in
// proportion to the plan.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{2500, 5000, 10000} {
		p := &Plan{}
		for i := range n {
			p.Bufs = append(p.Bufs, Buffer{Type: graph.T(graph.F32, 16), Storage: Temp, Offset: int64(i) * 64})
			in := Instr{On: i%2 == 0, Out: []int{i}, Zones: -1}
			if i >= 2 {
				in.In = []int{i - 2}
			}
			p.Instrs = append(p.Instrs, in)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				p.Schedule()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/instr")
		})
	}
}
