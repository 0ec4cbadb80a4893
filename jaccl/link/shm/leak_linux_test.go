package shm

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// held counts the descriptors of this process, and its mappings of segments.
func held(t *testing.T) (fds, maps int) {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(entries), bytes.Count(b, []byte("gomoe-shm"))
}

// A closed link holds no descriptor and no mapping: after use, after an error, and after
// a set-up that failed.
func TestNothingIsHeld(t *testing.T) {
	fds, maps := held(t)
	require.Zero(t, maps)
	for _, dir := range []string{"", t.TempDir()} {
		links := connectAll(t, jaccltest.Sites(3), Options{Dir: dir})
		_, maps := held(t)
		require.Equal(t, 9, maps)
		_, err := links[0].Alloc(1 << 20)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		require.Error(t, links[0].Exchange(ctx, &link.Exchange{Peers: []int{1}, Head: []byte("x")}))
		cancel()
		for _, l := range links {
			require.NoError(t, l.Close())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the other rank does not come
	_, err := Connect(ctx, jaccltest.Sites(2)[0], Options{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = Connect(ctx, jaccltest.Sites(2)[0], Options{Dir: t.TempDir()})
	require.ErrorIs(t, err, context.Canceled)
	again, maps := held(t)
	require.Zero(t, maps)
	require.LessOrEqual(t, again, fds+1, "descriptors") // the poller's may have come
}

// A segment can neither be truncated nor grow.
func TestSealed(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{Reserve: 1 << 20})
	f := os.NewFile(uintptr(links[0].fd), "segment")
	err := f.Truncate(0)
	require.Error(t, err)
	require.Error(t, f.Truncate(links[0].own.size+4096))
	links[0].fd = -1
	require.NoError(t, f.Close())
}

// A rank does not map memory that could be truncated.
func TestUnsealed(t *testing.T) {
	sites := jaccltest.Sites(2)
	var fd int
	sites[1] = liar{sites[1], func(a *announcement) {
		var err error
		fd, err = unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(fd, a.Size))
		a.FD = fd
	}}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, s := range sites {
		wg.Go(func() { _, errs[i] = Connect(deadline(t), s, Options{}) })
	}
	wg.Wait()
	unix.Close(fd)
	for _, err := range errs {
		require.ErrorContains(t, err, "is memory with seals 0x1, want 0x7")
	}
}

func TestGroupLeft(t *testing.T) {
	dir := t.TempDir()
	_, ok := groupLeft(dir)
	require.False(t, ok)
	for name, s := range map[string]string{"memory.max": "1000\n", "memory.current": "900\n", "memory.stat": "anon 500\nfile 400\nshmem 150\n"} {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(s), 0o600))
	}
	n, ok := groupLeft(dir)
	require.True(t, ok)
	require.Equal(t, int64(350), n)
	require.NoError(t, os.WriteFile(dir+"/memory.max", []byte("max\n"), 0o600))
	_, ok = groupLeft(dir)
	require.False(t, ok)
	left, whose := available()
	require.Positive(t, left)
	require.NotEmpty(t, whose)
}
