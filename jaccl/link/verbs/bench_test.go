package verbs

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// What an exchange of two ranks of this process costs over the stand-in: of polls and
// copies, not of a device.
func BenchmarkExchange(b *testing.B) {
	for _, n := range []int{0, 1 << 10, 64 << 10, 1 << 20} {
		for _, arena := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/arena=%v", n, arena), func(b *testing.B) {
				links := linked(b, 2, "")
				ctx := rdmatest.Within(b, time.Minute)
				b.ReportAllocs()
				b.SetBytes(int64(n))
				b.ResetTimer()
				err := errors.Join(together(links, func(rank int, l link.Link) error {
					memory := make([]byte, 2*n+8192)
					if arena {
						var err error
						if memory, err = l.(*Link).Alloc(2*n + 8192); err != nil {
							return err
						}
					}
					x := &link.Exchange{Peers: []int{1 - rank}, Head: make([]byte, 100), Heads: func([][]byte) error { return nil }}
					x.Send, x.Recv = [][][]byte{{memory[:n]}}, [][][]byte{{memory[(n+4095)/4096*4096:][:n]}}
					for range b.N {
						if err := l.Exchange(ctx, x); err != nil {
							return err
						}
					}
					return nil
				})...)
				if err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
