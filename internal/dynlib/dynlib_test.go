//go:build linux && !race

package dynlib_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// The first library that can be opened and that bind accepts is taken.
func TestFirst(t *testing.T) {
	var taken string
	var abs uintptr
	bind := func(file string, l dynlib.Library) error {
		if missing := l.Bind(dynlib.Function{Name: "labs", To: &abs}, dynlib.Function{Name: "no_such", To: new(uintptr)}); strings.Join(missing, " ") != "no_such" {
			return errors.New("no labs here")
		}
		taken = file
		return nil
	}
	require.NoError(t, dynlib.First([]string{"/nowhere/libx.so", "libc.so.6", "libm.so.6"}, bind))
	require.Equal(t, "libc.so.6", taken)
	minus := -7
	if r, _ := dynlib.Call(abs, uintptr(minus)); r != 7 {
		t.Errorf("labs(-7) is %d", r)
	}
	args := []uintptr{uintptr(minus)}
	if n := testing.AllocsPerRun(100, func() { dynlib.Call(abs, args...) }); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
	refuse := func(string, dynlib.Library) error { return errors.New("it is old\nand more") }
	require.EqualError(t, dynlib.First([]string{"libm.so.6", "libc.so.6"}, refuse), "tried libm.so.6 (it is old), libc.so.6 (it is old)")
	require.ErrorContains(t, dynlib.First([]string{"/nowhere/libx.so"}, bind), "tried /nowhere/libx.so (cannot open")
}

// Functions of the C library are there without opening it.
func TestC(t *testing.T) {
	address, err := dynlib.C("atof")
	require.NoError(t, err)
	text := append(make([]byte, 0, 1<<20), "0.5\x00"...) // on the heap, where it does not move
	f := dynlib.Double(address)
	if f(uintptr(unsafe.Pointer(&text[0])), 0) != 0.5 {
		t.Error("atof of 0.5 is another number")
	}
	runtime.KeepAlive(text)
	_, err = dynlib.C("no_such_function")
	require.Error(t, err)
}
