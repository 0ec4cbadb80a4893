package world

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/sharding"
)

// StatusMisfit is the exit status of a rank that does not fit a job of this many ranks
// but may fit a smaller one: gomoe launch -min-hosts then starts a smaller one. It is
// EX_CONFIG of sysexits.h.
const StatusMisfit = 78

// MisfitError reports that the number of ranks of a job does not fit its mesh, or the
// placement on it.
type MisfitError struct{ Err error }

func (m *MisfitError) Error() string { return m.Err.Error() }
func (m *MisfitError) Unwrap() error { return m.Err }

// StatusElsewhere is the exit status of a rank ending because another one has failed.
// gomoe launch then looks for the failure among the other ranks. It is EX_TEMPFAIL of
// sysexits.h.
const StatusElsewhere = 75

// ElsewhereError is the error of a process ending because another one has failed.
type ElsewhereError struct{ What string } // the failed operation, such as "could not write"

func (e *ElsewhereError) Error() string {
	return "another process " + e.What + "; its own message says why"
}

// Status returns the exit status of a program ending with err: 0 without one,
// StatusMisfit for a *MisfitError, StatusElsewhere if every error that it wraps
// originates on other ranks, like an *ElsewhereError or a *jaccl.Error blaming other
// ranks, else 1.
func Status(err error) int {
	var misfit *MisfitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &misfit):
		return StatusMisfit
	case elsewhere(err):
		return StatusElsewhere
	}
	return 1
}

// elsewhere reports whether an error originates on other ranks alone.
func elsewhere(err error) bool {
	switch e := err.(type) {
	case *ElsewhereError:
		return true
	case *jaccl.Error:
		return len(e.Blame) > 0 && !slices.Contains(e.Blame, e.Rank)
	case interface{ Unwrap() error }:
		return elsewhere(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !elsewhere(err) })
	}
	return false
}

// ParseMesh reads a mesh like sharding.FitMesh, for the job described by the environment:
// in "dp=*,ep=2" the number of ranks determines the length of dp, which is 1 if all ranks
// are in this process. It is a *MisfitError if the ranks do not divide over the other
// axes. Other meshes do not depend on the environment. getenv reads it; nil is os.Getenv.
func ParseMesh(text string, getenv func(string) string) (sharding.Mesh, error) {
	if !strings.Contains(text, "=*") {
		return sharding.ParseMesh(text)
	}
	if getenv == nil {
		getenv = os.Getenv
	}
	job, err := environ.Detect(getenv)
	if err != nil {
		return sharding.Mesh{}, err
	}
	m, err := sharding.FitMesh(text, job.Size)
	if err != nil {
		err = &MisfitError{err}
	}
	return m, err
}
