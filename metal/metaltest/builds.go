package metaltest

import (
	"testing"

	"github.com/gomoe/gomoe/lowering"
)

// Builds fails the test unless the libraries launched by a plan for kernels.Metal, files and made
// functions, compile with the lint of address spaces, and have the launched functions. It returns
// the device's functions by name. It skips the test if there is no compiler for the emulated GPU.
func Builds(t testing.TB, plan *lowering.Plan) map[string]bool {
	t.Helper()
	if err := shared().err; err != nil {
		t.Skip(err)
	}
	work, err := programs(plan, real())
	if err != nil {
		t.Error(err)
		return nil
	}
	libs, err := build(t.Context(), work, real())
	if err != nil {
		t.Error(err)
		return nil
	}
	there, launched := map[key]map[string]bool{}, map[string]bool{}
	for k, l := range libs {
		there[k] = map[string]bool{}
		for _, f := range l.Kernels() {
			there[k][f.Name] = true
		}
	}
	for at, w := range work {
		for _, l := range w.program.Launches {
			launched[l.Function] = true
			if !there[key{l.Source.File, leader}][l.Function] {
				t.Errorf("%s launches %s, which is not in %s", at, l.Function, nameOf(l.Source.File))
			}
		}
	}
	return launched
}
