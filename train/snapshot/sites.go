package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/whole"
)

// siteMark begins the name of the file by which processes find out who sees the same folder.
const siteMark = ".site-"

// sites returns by rank the first one whose process sees the same folder; nil if all see one. It makes the folder of several. Of those
// that share it one makes the mark, which a file system decides even where it remembers names for a while. All processes
// call sites.
func (f Folder) sites(ctx context.Context) (sites []int, err error) {
	p, err := f.process()
	if err != nil || p.of == 1 {
		return nil, err
	}
	names, err := f.World.Gather(ctx, []byte(uuid.NewString()))
	if err != nil {
		return nil, err
	}
	mark, made := filepath.Join(f.Path, siteMark+string(names[0])), false
	defer func() {
		if made {
			if left := os.Remove(mark); !errors.Is(left, fs.ErrNotExist) { // a snapshot that begins removes it, too
				err = errors.Join(err, left)
			}
		}
	}()
	err = f.all(ctx, func() error {
		if err := whole.Folder(f.Path); err != nil {
			return err
		}
		m, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		made = true
		_, err = m.WriteString(strconv.Itoa(p.n))
		return errors.Join(err, m.Close())
	})
	if err != nil {
		return nil, err
	}
	var maker []byte
	if err := f.all(ctx, func() (err error) { maker, err = infile.Read(mark, 1<<10); return err }); err != nil {
		return nil, err
	}
	makers, err := f.World.Gather(ctx, maker)
	if err != nil {
		return nil, err
	}
	for _, m := range makers {
		sites = append(sites, slices.IndexFunc(makers, func(o []byte) bool { return string(o) == string(m) }))
	}
	if slices.Max(sites) == 0 {
		sites = nil
	}
	return sites, nil
}
