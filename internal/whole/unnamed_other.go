//go:build !linux

package whole

import (
	"errors"
	"os"
)

// unnamed and link are for systems with files that have no name.
func unnamed(*os.Root) (*os.File, error)    { return nil, errors.ErrUnsupported }
func link(*os.File, *os.Root, string) error { return errors.ErrUnsupported }
