// Package infile opens and reads files from outside: files named by a user, and files in
// a model's folder. Such a path may name anything. A folder, a device, a socket, or a
// pipe where a program cannot wait for its writer, is an error, and reads are bounded, so
// that no path makes a program hang or use up its memory.
package infile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Open opens a regular file for reading. It never waits: a named pipe without a writer is an error like any other pipe.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, info, err := open(path)
	return f, info, quoted.Cause(err)
}

func open(path string) (*os.File, fs.FileInfo, error) {
	err := look(path, false)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the path may lead elsewhere by now
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info, false)
	}
	if err == nil {
		err = whole(path, f)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// whole returns an error if f is a pointer of git-lfs: the text that git leaves in place of a large file until git-lfs fetches it.
func whole(path string, f *os.File) error {
	const pointer = "version https://git-lfs.github.com/spec/"
	begins := make([]byte, len(pointer))
	if n, _ := f.ReadAt(begins, 0); string(begins[:n]) == pointer {
		return &fs.PathError{Op: "open", Path: path, Err: errors.New("this is a git-lfs pointer, which stands for the file; fetch the file with git lfs pull")}
	}
	return nil
}

// look returns an error unless there is a file at path.
func look(path string, pipes bool) error {
	info, err := os.Stat(path)
	var named *fs.PathError
	if errors.As(err, &named) {
		return &fs.PathError{Op: "open", Path: path, Err: named.Err} // like the error of opening it
	} else if err != nil {
		return err
	}
	return regular(path, info, pipes)
}

// regular returns an error unless a file is one that can be read to its end.
func regular(path string, info fs.FileInfo, pipes bool) error {
	what := "device"
	switch m := info.Mode(); {
	case m.IsRegular(), pipes && m&fs.ModeNamedPipe != 0:
		return nil
	case m.IsDir():
		what = "folder"
	case m&fs.ModeNamedPipe != 0:
		what = "pipe"
	case m&fs.ModeSocket != 0:
		what = "socket"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("this is a %s, want a file", what)}
}

// Read reads a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return All(path, f, limit)
}

// ReadAny reads a file or a pipe of at most limit bytes, such as <(command) of a shell.
// It waits for the writer of a pipe until ctx ends, and then returns the cause of ctx. A
// folder, a device or a socket is an error.
func ReadAny(ctx context.Context, path string, limit int64) ([]byte, error) {
	err := look(path, true)
	if err != nil {
		return nil, err
	}
	return wait(ctx, func() ([]byte, error) {
		f, err := os.Open(path) // waits for a writer
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil {
			return nil, err
		} else if err := regular(path, info, true); err != nil {
			return nil, err
		}
		return All(path, f, limit)
	})
}

// ReadStream reads at most limit bytes from r, called path in errors, until ctx ends. A
// read from a terminal or a pipe does not end with ctx; the reading goroutine is then
// abandoned.
func ReadStream(ctx context.Context, path string, r io.Reader, limit int64) ([]byte, error) {
	return wait(ctx, func() ([]byte, error) { return All(path, r, limit) })
}

// wait returns the result of read, or the cause of ctx's end.
func wait(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b, err := read()
		done <- result{b, err}
	}()
	select {
	case got := <-done:
		return got.b, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// All reads r, called path in errors, to its end. It is an error, of type *LongError, if
// r has more than limit bytes. Its memory is a small multiple of the bytes read, whatever
// size the file claims.
func All(path string, r io.Reader, limit int64) ([]byte, error) {
	long := &fs.PathError{Op: "read", Path: path, Err: &LongError{limit}}
	if f, ok := r.(*os.File); ok && f != os.Stdin { // a regular file is refused before being read
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
			return nil, long
		}
	}
	b, more, err := Head(path, r, limit)
	if more {
		return nil, long
	}
	return b, err
}

// Head is All for the first limit bytes of r, reporting whether there are more.
func Head(path string, r io.Reader, limit int64) (b []byte, more bool, err error) {
	b, err = io.ReadAll(io.LimitReader(r, min(limit, math.MaxInt64-1)+1))
	if named := (*fs.PathError)(nil); err != nil && !errors.As(err, &named) {
		err = &fs.PathError{Op: "read", Path: path, Err: err}
	}
	if err != nil {
		return nil, false, err
	}
	if int64(len(b)) > limit {
		return b[:limit], true, nil
	}
	return b, false, nil
}

// LongError is the error of a file with more bytes than its reader accepts.
type LongError struct{ Limit int64 }

func (e *LongError) Error() string {
	if e.Limit >= 1<<20 && e.Limit%(1<<20) == 0 {
		return fmt.Sprintf("more than %d MiB, want a smaller file", e.Limit>>20)
	}
	return fmt.Sprintf("more than %d bytes, want a smaller file", e.Limit)
}
