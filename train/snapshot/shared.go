package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/internal/whole"
)

// Shared returns an error, in all processes, unless all of them see the same folder. A run asks before its first step, so that
// it does not train for long until the first snapshot says it. It makes the folder. All processes call it.
func (f Folder) Shared(ctx context.Context) error {
	p, err := f.process()
	if err != nil || p.of == 1 {
		return err
	}
	mark := filepath.Join(f.Path, ".shared")
	remove := func() error {
		if err := os.Remove(mark); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	for _, do := range []func() error{
		func() error { return errors.Join(whole.Folder(f.Path), remove()) }, // of a run that was killed here
		func() error {
			if !p.first {
				return nil
			}
			return os.WriteFile(mark, nil, 0o644)
		},
		func() error {
			if _, err := os.Stat(mark); err != nil {
				host, _ := os.Hostname()
				return fmt.Errorf("%s on %s is not the folder that the first process sees: all processes must see the same, such as one that machines share", f.Path, host)
			}
			return nil
		},
	} {
		if err = f.all(ctx, do); err != nil {
			break
		}
	}
	if p.first {
		err = errors.Join(err, remove())
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}
