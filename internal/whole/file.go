package whole

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// File is a file without a name before Publish or Close. A device, a pipe or a socket is
// written directly. It is not safe for concurrent use.
type File struct {
	path string // as given, for errors
	f    *os.File
	size int64 // bytes written
	err  error // the first error; nothing is published after it

	root   *os.Root // the folder; nil if the file is written directly or has been closed
	name   string   // in the folder
	temp   string   // the name in the folder until the file is published; "" for none
	public bool     // the file has its name
}

// Write writes a file with the contents written by write. After an error of write or of
// the file system, the file is unchanged. An existing file keeps its permissions.
func Write(path string, write func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Close()
}

// WriteAll writes files to a folder, in the order of their names. A name with a slash is that of a file in a folder below
// it, which WriteAll creates.
func WriteAll(folder string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, name)
		if strings.Contains(name, "/") {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return err
			}
		}
		err := Write(path, func(w io.Writer) error { _, err := w.Write(files[name]); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// Create begins a file. It fails at once if the file cannot be written. The caller must
// call Close or Discard. A symbolic link is followed.
func Create(path string) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, &fs.PathError{Op: "create", Path: path, Err: errors.New("this is a folder, want the name of a file")}
	case err == nil && (!info.Mode().IsRegular() || ofProcess(path)):
		f, err := openDirect(path)
		if err != nil {
			return nil, err
		}
		return &File{path: path, f: f, public: true}, nil
	case err == nil:
		// The file itself is not written, but its permissions count.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	real, err := target(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: cause(err)}
	}
	f, err := CreateIn(root, filepath.Base(real))
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "create", Path: path, Err: cause(err)}, root.Close())
	}
	f.path = path
	if info != nil {
		if err := f.f.Chmod(info.Mode().Perm()); err != nil {
			f.Discard()
			return nil, &fs.PathError{Op: "create", Path: path, Err: cause(err)}
		}
	}
	return f, nil
}

// readerTakes is the time limit for a reader to open a pipe that is to be written.
const readerTakes = 5 * time.Second

// openDirect opens files that are written directly. Opening a pipe would wait for a
// reader without end.
func openDirect(path string) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) {
			return f, err
		}
		if time.Since(began) > readerTakes {
			return nil, &fs.PathError{Op: "create", Path: path, Err: errors.New("nobody reads this pipe, want a file")}
		}
	}
}

// CreateIn begins a file with the given name in a folder, which Close and Discard close.
// It follows no link.
func CreateIn(root *os.Root, name string) (*File, error) { return createIn(root, name, unnamed) }

func createIn(root *os.Root, name string, unnamed func(*os.Root) (*os.File, error)) (*File, error) {
	f := &File{path: filepath.Join(root.Name(), name), root: root, name: name}
	sweep(root)
	var err error
	if f.f, err = unnamed(root); err == nil {
		lock(f.f) // before having a name
		return f, nil
	}
	if f.f, f.temp, err = newTemporary(root, name, 0o666); err != nil {
		return nil, &fs.PathError{Op: "create", Path: f.path, Err: cause(err)}
	}
	return f, nil
}

// target returns the path at the end of symbolic links. The last one may lead to a file
// that does not exist yet.
func target(path string) (string, error) {
	for range 40 {
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	return "", &fs.PathError{Op: "create", Path: path, Err: errors.New("too many links")}
}

// ofProcess reports whether a path names an open file of the process, such as
// /dev/stdout. Such a file must be written directly: a new file cannot take its place.
func ofProcess(path string) bool {
	for _, p := range []string{"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"} {
		if strings.HasPrefix(filepath.ToSlash(path), p) {
			return true
		}
	}
	return false
}

// Write writes all of p to the file. After an error all further calls return the same
// error. If the file is published, the part of p written before the error is removed
// again.
func (f *File) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.f.Write(p)
	if err != nil {
		f.fail(err)
		if f.root != nil && f.public {
			f.f.Truncate(f.size) // the first error is the one to report
		}
		return n, f.err
	}
	f.size += int64(n)
	return n, nil
}

// fail records the first error.
func (f *File) fail(err error) {
	if err != nil && f.err == nil {
		f.err = &fs.PathError{Op: "write", Path: f.path, Err: cause(err)}
	}
}

// Publish gives the file its name, with the contents written so far. Later writes are
// added to the file at once.
func (f *File) Publish() error {
	if f.err != nil || f.public {
		return f.err
	}
	f.fail(f.publish())
	if f.err == nil {
		file, err := f.root.OpenFile(f.name, os.O_WRONLY|os.O_APPEND, 0)
		f.fail(err)
		f.f = file
	}
	return f.err
}

func (f *File) publish() error {
	if err := f.f.Sync(); err != nil {
		return err
	}
	if f.temp == "" {
		f.temp = temporary(f.name)
		if err := link(f.f, f.root, f.temp); err != nil {
			return err
		}
	}
	if runtime.GOOS == "windows" { // open files cannot be renamed there
		if err := f.f.Close(); err != nil {
			return err
		}
	}
	if err := f.root.Rename(f.temp, f.name); err != nil {
		return err
	}
	if err := f.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) { // closing the file unlocks it
		return err
	}
	f.public = true
	return syncFolder(f.root)
}

// Sync returns once all writes to a file, by any process, are on the disk.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close publishes the file and ends it. It returns the first error of any Write. After an
// error the name refers to the old file, if any, unless the file has been published.
func (f *File) Close() error {
	if f.err == nil && !f.public {
		f.fail(f.publish())
	}
	return f.end()
}

// Discard ends the file and drops its unpublished contents. After Close it does nothing.
func (f *File) Discard() { f.end() }

func (f *File) end() error {
	if f.f == nil {
		return f.err
	}
	if err := f.f.Close(); !errors.Is(err, os.ErrClosed) { // publish closes it as well
		f.fail(err)
	}
	f.f = nil
	if f.root == nil {
		return f.err
	}
	if f.temp != "" && !f.public {
		f.root.Remove(f.temp)
	}
	f.root.Close()
	f.root = nil
	return f.err
}

// cause returns the system's error inside an error naming another path.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
