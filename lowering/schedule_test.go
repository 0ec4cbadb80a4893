package lowering

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// scheduled returns a plan of lines such as "d t1 < x t0 rows n". d is an instruction of
// the target, h one of the host, and c a collective; t1 is written, x and t0 are read, and
// n are the rows in use. The buffers are: x and y, inputs; o and q, results, with o over y
// if donated; t0, t1, ..., temporaries of 64 bytes at 64 times their number; u, a temporary
// of 64 bytes at 96, which overlaps half of t1 and half of t2; n, i32[1] at 0; v, another
// view of t0; and z, which has no bytes.
func scheduled(t *testing.T, donated bool, lines ...string) *Plan {
	t.Helper()
	var names []string
	p := &Plan{Target: "toy"}
	add := func(name string, b Buffer) {
		names = append(names, name)
		if b.Type.DType == graph.NoDType {
			b.Type = graph.T(graph.U8, 64)
		}
		p.Bufs = append(p.Bufs, b)
	}
	add("x", Buffer{Storage: Input})
	add("y", Buffer{Storage: Input})
	if donated {
		add("o", Buffer{Storage: Alias, Of: 1})
	} else {
		add("o", Buffer{Storage: Output})
	}
	add("q", Buffer{Storage: Output})
	for i := range 6 {
		add(fmt.Sprintf("t%d", i), Buffer{Offset: int64(64 * i)})
	}
	add("v", Buffer{Storage: Alias, Of: slices.Index(names, "t0")})
	add("u", Buffer{Offset: 96})
	add("n", Buffer{Type: graph.T(graph.I32, 1)})
	add("z", Buffer{Type: graph.T(graph.I32, 0)})
	for _, line := range lines {
		what, rest, _ := strings.Cut(line, " ")
		rest, rows, ragged := strings.Cut(rest, " rows ")
		out, args, _ := strings.Cut(rest, "<")
		bufs := func(s string) (list []int) {
			for _, name := range strings.Fields(s) {
				b := slices.Index(names, name)
				require.GreaterOrEqual(t, b, 0, name)
				list = append(list, b)
			}
			return list
		}
		in := Instr{Op: named(what), Out: bufs(out), In: bufs(args), Zones: -1, On: what == "d"}
		if ragged {
			in.Zones = bufs(rows)[0]
		}
		if what == "c" {
			in.Exchange = func(context.Context, collective.Group, collective.Call, *exec.Args) error { return nil }
		}
		p.Instrs = append(p.Instrs, in)
	}
	return p
}

func (s *Schedule) text() string {
	var b strings.Builder
	for i, t := range s.Turns {
		if t.Commit || t.Wait > 0 {
			fmt.Fprintf(&b, " @%d", i)
		}
		if t.Commit {
			b.WriteString(" commit")
		}
		if t.Wait > 0 {
			fmt.Fprintf(&b, " wait %d", t.Wait)
		}
	}
	return strings.TrimSpace(fmt.Sprint(s.Segments, b.String()))
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		name    string
		donated bool
		lines   []string
		want    string
	}{
		{"nothing", false, nil, "[]"},
		{"the host's alone", false, []string{"h t0 < x", "c t1 < t0", "h o < t1"}, "[]"},
		{"the device's alone", false, []string{"d t0 < x", "d t1 < t0", "d o < t1"}, "[[0 1 2]] @3 commit wait 1"},
		{"the host reads what the device writes", false, []string{"d t0 < x", "h o < t0"}, "[[0]] @1 commit wait 1"},
		{"and then another", false, []string{"d t0 < x", "h o < t0", "h q < t0"}, "[[0]] @1 commit wait 1"},
		{"the host reads what the device reads", false, []string{"d t0 < x", "h o < x"}, "[[0]] @2 commit wait 1"},
		{"the host writes what the device reads", false, []string{"h t0 < x", "d t1 < t0", "h t0 < x", "d o < t0"}, "[[1] [3]] @2 commit wait 1 @4 commit wait 2"},
		{"the host writes what the device writes", false, []string{"d t0 < x", "h t0 < x"}, "[[0]] @1 commit wait 1"},
		{"the device reads what the host writes", false, []string{"h t0 < x", "d t1 < t0", "h t2 < x", "d o < t1 t2"}, "[[1 3]] @4 commit wait 1"},
		{"other memory", false, []string{"d t0 < x", "h t1 < y", "h t2 < t1", "d o < t2 t0"}, "[[0 3]] @4 commit wait 1"},
		{"a place of the arena that was another's", false, []string{"d t1 < x", "h u < y"}, "[[0]] @1 commit wait 1"},
		{"the end of the arena's place is another's", false, []string{"d t0 < x", "h u < y"}, "[[0]] @2 commit wait 1"},
		{"a place that both halves conflict with", false, []string{"d t1 < x", "d t2 < x", "c t4 < t5", "d t3 < x", "h o < u"}, "[[0 1] [3]] @2 commit @4 wait 1 @5 commit wait 2"},
		{"an alias", false, []string{"d t0 < x", "h o < v"}, "[[0]] @1 commit wait 1"},
		{"through an alias", false, []string{"d v < x", "h o < t0"}, "[[0]] @1 commit wait 1"},
		{"a donated input that is read", true, []string{"d t0 < y", "h o < x"}, "[[0]] @1 commit wait 1"},
		{"an input that is not donated", false, []string{"d t0 < y", "h o < x"}, "[[0]] @2 commit wait 1"},
		{"a donated input that is written", true, []string{"d o < x", "h t0 < y"}, "[[0]] @1 commit wait 1"},
		{"rows in use that the device counts", false, []string{"d n < x", "h t1 < t2 rows n"}, "[[0]] @1 commit wait 1"},
		{"rows in use that the device reads", false, []string{"h n < x", "d t1 < t2 rows n", "h n < x"}, "[[1]] @2 commit wait 1"},
		{"no bytes", false, []string{"d z < x", "h t0 < z"}, "[[0]] @2 commit wait 1"},
		{"a collective starts the device", false, []string{"d t0 < x", "c t1 < y", "d o < t0 t1"}, "[[0] [2]] @1 commit @3 commit wait 2"},
		{"a collective sends what the device writes", false, []string{"d t0 < x", "c t1 < t0", "d o < t1"}, "[[0] [2]] @1 commit wait 1 @3 commit wait 2"},
		{"a collective receives where the device reads", false, []string{"d o < t1", "c t1 < y"}, "[[0]] @1 commit wait 1"},
		{"exactly the segment", false, []string{"d t0 < x", "c t4 < y", "d t1 < x", "c t5 < y", "h o < t0", "h q < t1"},
			"[[0] [2]] @1 commit @3 commit @4 wait 1 @5 wait 2"},
		{"the last of several", false, []string{"d t0 < x", "c t4 < y", "d t1 < t0", "c t5 < y", "h o < t0 t1"}, "[[0] [2]] @1 commit @3 commit @4 wait 2"},
		{"no segment twice", false, []string{"d t0 < x", "c t4 < y", "d t1 < t0", "h o < t1", "h q < t0"}, "[[0] [2]] @1 commit @3 commit wait 2"},
		{"the open one is left open", false, []string{"d t0 < x", "c t4 < y", "d t1 < x", "h o < t0", "d t2 < t1"}, "[[0] [2 4]] @1 commit @3 wait 1 @5 commit wait 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scheduled(t, c.donated, c.lines...).Schedule().text(); got != c.want {
				t.Errorf("%s\n\t%s\nwant\n\t%s", strings.Join(c.lines, "\n"), got, c.want)
			}
		})
	}
}

// In random plans, at every instruction of the host and at the end, all instructions of the
// device that conflict with it are done, and the wait is for one that conflicts with it.
func TestScheduleIsEnoughAndNotMore(t *testing.T) {
	names := strings.Fields("x y o q t0 t1 t2 t3 t4 t5 v u n")
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		var lines []string
		for range 1 + r.IntN(25) {
			line := string("ddhhc"[r.IntN(5)]) + " " + names[2+r.IntN(len(names)-2)] + " <"
			for range r.IntN(3) {
				line += " " + names[r.IntN(len(names))]
			}
			lines = append(lines, line)
		}
		p := scheduled(t, seed%2 == 0, lines...)
		s := p.Schedule()
		fail := func(i int, format string, args ...any) {
			t.Fatalf("seed %d, instruction %d: %s\n%s\n%s", seed, i, fmt.Sprintf(format, args...), strings.Join(lines, "\n"), s.text())
		}
		conflicts := func(i, j int) bool {
			touch := func(list []int) map[[2]int64]bool {
				m := map[[2]int64]bool{} // every byte
				for _, e := range p.extents(list) {
					for at := e.from; at < e.to; at++ {
						m[[2]int64{int64(e.of), at}] = true
					}
				}
				return m
			}
			common := func(a, b map[[2]int64]bool) bool {
				for k := range a {
					if b[k] {
						return true
					}
				}
				return false
			}
			ri, wi, rj, wj := touch(p.Instrs[i].In), touch(p.Instrs[i].Out), touch(p.Instrs[j].In), touch(p.Instrs[j].Out)
			return common(wj, ri) || common(wj, wi) || common(rj, wi)
		}
		committed, done := 0, 0
		for i := range len(p.Instrs) + 1 {
			turn := s.Turns[i]
			if turn.Commit {
				committed++
			}
			if i < len(p.Instrs) && p.Instrs[i].On {
				if turn != (Turn{}) || !slices.Contains(slices.Concat(s.Segments...), i) {
					fail(i, "the target's has turn %v, or is in no segment", turn)
				}
				continue
			}
			last := 0 // the segments that must be done
			for k, seg := range s.Segments {
				for _, j := range seg {
					if i == len(p.Instrs) || j < i && conflicts(i, j) {
						last = k + 1
					}
				}
			}
			switch {
			case turn.Wait > committed:
				fail(i, "waits for segment %d of %d", turn.Wait, committed)
			case max(turn.Wait, done) < last:
				fail(i, "begins when %d segments are done, want %d", max(turn.Wait, done), last)
			case turn.Wait > 0 && turn.Wait != last:
				fail(i, "waits for %d segments, want %d", turn.Wait, last)
			}
			done = max(done, turn.Wait)
		}
	}
}

func TestReportOfDevice(t *testing.T) {
	p := scheduled(t, false, "d t0 < x", "h t1 < x", "c t2 < t0", "d o < t2")
	d := p.deviceUse()
	require.Equal(t, DeviceUse{Name: "toy", On: 2, Host: 1, Segments: 2, Waits: 2}, *d)
	require.Equal(t, "device toy: 2 instructions there, 1 on the host; 2 segments, for which the host waits 2 times", d.String())
	p.Target = ""
	require.Nil(t, p.deviceUse())
}
