//go:build linux || darwin

package shm

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// Ranks see each other's memory, which grows after they have connected.
func TestShared(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		links := connectAll(t, jaccltest.Sites(3), Options{Dir: dir, Reserve: 64 << 20})
		page := int64(os.Getpagesize())
		_, err := links[0].View(1, 0, 1)
		require.ErrorContains(t, err, "shm: view: rank 1 on host1: has 0 bytes of shared memory, want 1 from 0 on")

		a, err := links[1].Alloc(10)
		require.NoError(t, err)
		b, err := links[1].Alloc(5 << 20)
		require.NoError(t, err)
		require.Equal(t, 10, cap(a), "room after what was asked for")
		for _, x := range [][]byte{a, b} {
			require.Zero(t, uintptr(unsafe.Pointer(&x[0]))%uintptr(page), "does not begin at a page")
			require.Equal(t, make([]byte, len(x)), x, "not zeroed")
		}
		at, ok := links[1].Locate(b[7:9])
		require.True(t, ok)
		require.Equal(t, page+7, at)
		for from, l := range links {
			v, err := l.View(1, at, 2)
			require.NoError(t, err)
			copy(v, []byte{byte(from), 77})
			require.Equal(t, v, b[7:9])
			require.Equal(t, 2, cap(v))
		}

		// Memory that is not this rank's shared memory.
		for _, x := range [][]byte{nil, make([]byte, 5), links[1].own.mem[:8], links[1].own.mem[links[1].own.arena-1:][:8], links[1].own.mem[links[1].own.arena:]} {
			_, ok := links[1].Locate(x)
			require.False(t, ok)
		}
		v, err := links[0].View(1, 0, 10)
		require.NoError(t, err)
		_, ok = links[0].Locate(v)
		require.False(t, ok, "a peer's memory")

		all := int(page + 5<<20)
		for _, c := range []struct {
			offset int64
			n      int
		}{{-1, 1}, {0, -1}, {0, all + 1}, {int64(all), 1}, {int64(all) + 1, 0}, {math.MaxInt64, 1}, {math.MaxInt64, math.MaxInt}, {1, math.MaxInt}, {math.MinInt64, 4}} {
			_, err := links[2].View(1, c.offset, c.n)
			require.ErrorContains(t, err, "shared memory, want", "%+v", c)
		}
		_, err = links[2].View(1, int64(all), 0)
		require.NoError(t, err)
		for _, peer := range []int{-1, 3} {
			_, err = links[2].View(peer, 0, 0)
			require.ErrorContains(t, err, "of 3")
		}

		_, err = links[1].Alloc(-1)
		require.ErrorContains(t, err, "-1 bytes, want none or more")
		empty, err := links[1].Alloc(0)
		require.NoError(t, err)
		require.NotNil(t, empty)
		_, err = links[1].Alloc(64 << 20)
		require.ErrorContains(t, err, "67108864 bytes where 5246976 of 67108864 are used")
		_, err = links[1].Alloc(50 << 20) // an error costs nothing
		require.NoError(t, err)
	}
}

// If the system has no memory left, Alloc returns an error, and no signal follows later.
func TestAllocTooMuch(t *testing.T) {
	anonymous := connectAll(t, jaccltest.Sites(1), Options{Reserve: 1 << 44})[0]
	_, err := anonymous.Alloc(1 << 43)
	require.Regexp(t, `shm: alloc: 8796093022208 bytes after 0: .* (has|have) [0-9]+ bytes`, err.Error())
	dir := t.TempDir()
	file := connectAll(t, jaccltest.Sites(1), Options{Reserve: 1 << 43, Dir: dir})[0]
	_, err = file.Alloc(1 << 42)
	require.Regexp(t, `shm: alloc: 4398046511104 bytes after 0: the file system of .* has [0-9]+ bytes left of [0-9]+: no space left`, err.Error())
	b, err := file.Alloc(1 << 20)
	require.NoError(t, err)
	clear(b)
}

// If Options.Reserve is not set, an arena may have the size of the machine's memory.
func TestReserve(t *testing.T) {
	all, err := machineMemory()
	require.NoError(t, err)
	n, err := reserveFor(0, 2, 4096)
	require.NoError(t, err)
	require.LessOrEqual(t, n, all)
	require.Greater(t, n, all/2)
	n, err = reserveFor(100_000, 2, 4096)
	require.NoError(t, err)
	require.Equal(t, 100_000/int64(os.Getpagesize())*int64(os.Getpagesize()), n)
	_, err = reserveFor(most/2, 2, 4096)
	require.ErrorContains(t, err, "bytes to reserve, want at most")
}

// Files have no names when the ranks are connected. Files that dead processes have left
// are removed by the next process.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*c")
	require.NoError(t, os.Mkdir(dir, 0o700))
	me, err := self()
	require.NoError(t, err)
	keep := []string{"other", prefix + "x-1-ab", prefix + "1-2", prefix + "-5-1-ab"}
	fd, path, err := createFile(dir, 10) // a file of this process, which lives
	require.NoError(t, err)
	require.NoError(t, os.NewFile(uintptr(fd), path).Close())
	keep = append(keep, filepath.Base(path))
	for _, name := range keep[:4] {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, running, err := startOf(1 << 30)
	require.NoError(t, err)
	require.False(t, running)
	gone := []string{
		fileName(life{1 << 30, 5}),                // no such process
		fileName(life{os.Getpid(), me.start + 1}), // another process had the number
	}
	for _, name := range gone {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600))
	}

	links := connectAll(t, jaccltest.Sites(2), Options{Dir: dir, Reserve: 1 << 20})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, keep, names)
	ctx := deadline(t)
	succeed(t, all(links, func(l *transport) error { return plan{2, 4}.play(ctx, l, others(l.rank, 2), true, nil) }))
}

// A file is opened only if it belongs to this user and nobody else can open it.
func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	require.NoError(t, os.WriteFile(open, nil, 0o600))
	require.NoError(t, os.Chmod(open, 0o644))
	_, err := openFile(open)
	require.ErrorContains(t, err, "that nobody else can open")
	shut := filepath.Join(dir, "shut")
	require.NoError(t, os.WriteFile(shut, nil, 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(shut, link))
	_, err = openFile(link)
	require.Error(t, err)
	fd, err := openFile(shut)
	require.NoError(t, err)
	require.NoError(t, os.NewFile(uintptr(fd), shut).Close())
}

// View copies nothing.
func TestViewIsTheMemory(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{Reserve: 1 << 30})
	big, err := links[0].Alloc(100 << 20)
	require.NoError(t, err)
	v, err := links[1].View(0, 0, 100<<20)
	require.NoError(t, err)
	for i := 0; i < len(big); i += 9 << 20 {
		big[i] = byte(i>>20) + 1
	}
	for i := 0; i < len(v); i += 9 << 20 {
		if v[i] != byte(i>>20)+1 {
			t.Fatalf("byte %d is %d", i, v[i])
		}
	}
	require.False(t, bytes.Equal(v[:1], []byte{0}))
}
