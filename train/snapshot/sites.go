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

// siteMark is the prefix of the file by which processes determine which of them share a folder.
const siteMark = ".site-"

// sites returns, by rank, the first rank sharing the same folder; nil if all share one. With several processes, it
// creates the folder. Among the processes sharing it, exactly one creates the mark: exclusive creation is decided
// by the file system, even if it caches names. All processes must call sites.
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
			if left := os.Remove(mark); !errors.Is(left, fs.ErrNotExist) { // a starting snapshot removes it too
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
