package half

import "fmt"

// Loops returns the conversions by the name of every set of instructions that
// this processor has.
func Loops() map[string]func(conversion string, n int, dst, src *byte) int {
	loops := map[string]func(string, int, *byte, *byte) int{}
	for _, i := range available() {
		loops[fmt.Sprint([]string{"none", "avx2", "avx512"}[i])] = func(name string, n int, dst, src *byte) int {
			c := map[string]conversion{"WidenBrain": widenBrain, "WidenHalf": widenHalf, "NarrowBrain": narrowBrain, "NarrowHalf": narrowHalf, "WidenE4M3": widenE4M3, "WidenE5M2": widenE5M2, "WidenQ8": widenQ8, "NarrowE4M3": narrowE4M3, "NarrowE5M2": narrowE5M2}[name]
			return c.by(i, block{rows: 1, n: n, dst: dst, src: src})
		}
	}
	return loops
}
