package mtl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

// A system from macOS 15 on keeps the buffers of a set, and an older one has no sets.
func TestResidency(t *testing.T) {
	for system, want := range map[int]bool{14: false, 15: true, 26: true} {
		b := stand(t, standin.Options{System: system, Memory: 1 << 20})
		s, err := b.device.ResidencySet()
		require.NoError(t, err)
		require.Equal(t, want, s != nil, "macOS %d", system)
		q, err := b.device.CommandQueue()
		require.NoError(t, err)
		q.Keep(s)
		var all []*Buffer
		for _, n := range []int{1 << 10, 1 << 16} {
			x, err := b.device.Buffer(n)
			require.NoError(t, err)
			s.Add(x)
			all = append(all, x)
		}
		if s != nil {
			require.Equal(t, uint64(1<<10+1<<16), s.bytes)
			s.most = s.bytes + 1<<10 - 1 // a buffer with which they would be more is not kept
		}
		x, err := b.device.Buffer(1 << 10)
		require.NoError(t, err)
		s.Add(x)
		for _, x := range append(all, x) {
			s.Remove(x)
			s.Remove(x) // it is not there any more
			x.Close()
		}
		if s != nil {
			require.Zero(t, s.bytes)
			require.Empty(t, s.sizes)
		}
		q.Close()
		s.Close()
		report := b.standin.Report()
		require.Empty(t, report.Violations())
		for _, class := range []string{"MTLBuffer", "MTLResidencySet", "MTLResidencySetDescriptor"} {
			require.Zero(t, report.Live()[class], class)
		}
	}
}
