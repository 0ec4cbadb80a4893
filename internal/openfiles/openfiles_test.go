package openfiles

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	open := &os.PathError{Op: "open", Path: "/dev/null", Err: syscall.EMFILE}
	for _, err := range []error{open, errors.New("rank 1: pipe2: too many open files")} {
		if got := Explain(fmt.Errorf("set up: %w", err)); !errors.Is(got, err) || !strings.Contains(got.Error(), "ulimit -n") {
			t.Errorf("%v, want a remedy", got)
		}
	}
	for _, err := range []error{nil, syscall.ENOENT} {
		if got := Explain(err); got != err {
			t.Errorf("%v, want %v as it is", got, err)
		}
	}
}
