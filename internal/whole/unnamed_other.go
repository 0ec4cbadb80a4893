//go:build !linux

package whole

import (
	"errors"
	"os"
)

// unnamed and link return errors, because this system has no files without a name.
func unnamed(*os.Root) (*os.File, error)    { return nil, errors.ErrUnsupported }
func link(*os.File, *os.Root, string) error { return errors.ErrUnsupported }
