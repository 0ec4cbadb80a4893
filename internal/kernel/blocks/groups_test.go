package blocks

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/quant"
)

// Every function that unpacks blocks makes the groups of quant.Unpack, and writes nothing
// else.
func TestUnpackAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, d := range quant.Types() {
		if !quant.HasGroups(d) {
			continue
		}
		block, size := d.Block()
		for _, count := range []int{1, 2, 3, 4, 5, 8, 11} {
			w := randomBlocks(r, d, 1, count*block)
			if count == 11 {
				for i := range w {
					w[i] = 0xff
				}
			}
			n := (len(w)/size*block + 127) / 128
			want := make([]quant.Group, n)
			quant.Unpack(want, d, w)
			for _, v := range sets() {
				got := make([]quant.Group, n+1)
				got[n].Q[0] = 3
				v.set.unpackGroups(new(unpackArgs), got[:n], d, w)
				for i := range want {
					if got[i].Q != want[i].Q {
						t.Fatalf("%s %s, %d blocks: group %d has\n%v, want\n%v", v.name, d, count, i, got[i].Q, want[i].Q)
					}
					for b := range 4 {
						sameQuant(t, v.name+" "+d.String()+": a scale", got[i].Scale[b], want[i].Scale[b])
						sameQuant(t, v.name+" "+d.String()+": an offset", got[i].Offset[b], want[i].Offset[b])
					}
				}
				if got[n] != (quant.Group{Q: [128]byte{3}}) {
					t.Fatalf("%s %s, %d blocks: the group behind the last is written", v.name, d, count)
				}
			}
		}
	}
}
