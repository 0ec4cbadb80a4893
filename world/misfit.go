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

// StatusMisfit is the exit status of a rank that does not run in a job of so many ranks, and may run in one of fewer: gomoe
// launch -min-hosts then starts it so. It is what sysexits.h calls EX_CONFIG.
const StatusMisfit = 78

// MisfitError is the error of a job whose number of ranks does not fit its mesh, or what lies on it.
type MisfitError struct{ Err error }

func (m *MisfitError) Error() string { return m.Err.Error() }
func (m *MisfitError) Unwrap() error { return m.Err }

// StatusElsewhere is the exit status of a rank that ends because another one has failed. gomoe launch then looks for the failure
// among the other ranks. It is what sysexits.h calls EX_TEMPFAIL.
const StatusElsewhere = 75

// ElsewhereError is the error of a process that ends because another one has failed.
type ElsewhereError struct{ What string } // what the other one has failed to do, such as "could not write"

func (e *ElsewhereError) Error() string {
	return "another process " + e.What + "; its own message says why"
}

// Status returns the exit status of a program that ends with err: 0 without one, StatusMisfit for a *MisfitError, StatusElsewhere if
// all that it wraps comes of other ranks, as an *ElsewhereError and a *jaccl.Error that blames others do, else 1.
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

// elsewhere reports whether an error comes of other ranks alone.
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

// ParseMesh reads a mesh as sharding.FitMesh does, for the job that the environment describes: in "dp=*,ep=2" the axis dp is
// as long as its ranks make it, and 1 if all ranks are in this process. It is a *MisfitError if the ranks do not divide over the
// other axes. Other meshes do not depend on the environment. getenv reads it; nil is os.Getenv.
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
