//go:build unix

package infile

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is no file is an error at once, and nothing is read without a bound.
func TestNoFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(pipe, link))
	ended, end := context.WithCancelCause(context.Background())
	end(errors.New("told to end"))
	for path, want := range map[string]string{dir: "this is a folder", "/dev/zero": "this is a device", socket: "this is a socket", filepath.Join(dir, "none"): "no such file", pipe: "this is a pipe", link: "this is a pipe"} {
		_, _, err := Open(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
		_, err = Read(path, 10)
		require.ErrorContains(t, err, want)
		_, err = ReadAny(ended, path, 10)
		if strings.HasSuffix(want, "pipe") {
			want = "told to end"
		}
		require.ErrorContains(t, err, want)
	}
	_, err = ReadStream(ended, "stdin", blocked{}, 10)
	require.ErrorContains(t, err, "told to end")
}

type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }

// A pipe is read as far as its writer writes, and no further than the limit.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, c := range []struct{ text, want string }{{"12345", ""}, {strings.Repeat("1", 1<<20), "more than 10 bytes"}} {
		go func() {
			if f, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
				io.WriteString(f, c.text)
				f.Close()
			}
		}()
		b, err := ReadAny(context.Background(), pipe, 10)
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.text, string(b))
	}
}

// A file is read up to its limit. One that has no bytes on the disk takes no memory beyond that.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("1234567890"), 0o600))
	b, err := Read(path, 10)
	require.NoError(t, err)
	require.Equal(t, "1234567890", string(b))
	for _, size := range []int64{11, 1 << 40} {
		require.NoError(t, os.Truncate(path, size))
		for _, limit := range []int64{10, 1 << 20} {
			if size < limit {
				continue
			}
			_, err = Read(path, limit)
			var long *LongError
			require.ErrorAs(t, err, &long)
			require.ErrorContains(t, err, path)
		}
	}
	for _, read := range []func() ([]byte, error){
		func() ([]byte, error) { return Read(path, 64<<20) },
		func() ([]byte, error) { return ReadAny(context.Background(), path, 64<<20) },
	} { // the size is enough to know
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = read()
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "more than 64 MiB")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
	require.EqualError(t, &LongError{3 << 20}, "more than 3 MiB, want a smaller file")
}
