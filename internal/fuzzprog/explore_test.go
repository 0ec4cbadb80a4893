package fuzzprog

import (
	"fmt"
	"regexp"
	"sort"
	"testing"

	"github.com/gomoe/gomoe"
)

func TestExplore(t *testing.T) {
	count := map[string]int{}
	acc, tot, neq, nan := 0, 0, 0, 0
	msgs := map[string]int{}
	num := regexp.MustCompile(`[0-9]+|@[a-z.~]+`)
	bad := 0
	for s := uint64(1); s <= uint64(*programs); s++ {
		p, err := New(s)
		if err != nil {
			t.Errorf("%v", err)
			bad++
			continue
		}
		for _, e := range p.Eqns {
			count[e.Prim.Name()]++
			neq++
		}
		in := p.Inputs(p.Program, 1)
		out, err := run(p.Program, gomoe.Config{}, in)
		if err != nil {
			t.Errorf("seed %d: %v\n%s", s, err, p)
			bad++
			continue
		}
		for _, o := range out {
			for _, x := range o.Float64s() {
				if x != x {
					nan++
					fmt.Println("NaN seed", s)
					break
				}
			}
		}
		for _, ms := range Meshes() {
			m := mesh(t, ms)
			for k := range uint64(3) {
				tot++
				_, err := gomoe.Compile(p.Program, gomoe.Config{Mesh: m, Place: Place(p.Program, m, k)})
				if err == nil {
					acc++
				} else {
					msgs[num.ReplaceAllString(err.Error(), "#")]++
				}
			}
		}
	}
	fmt.Println("eqns/prog", neq / *programs, "accepted", acc, "of", tot, "nan", nan)
	var names []string
	for k := range count {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool { return count[names[i]] > count[names[j]] })
	for _, n := range names {
		fmt.Print(n, " ", count[n], ", ")
	}
	fmt.Println()
}
