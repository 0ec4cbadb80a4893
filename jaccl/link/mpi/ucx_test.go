package mpi

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// cHas reports whether the C library's environment has that value of a variable.
func cHas(t *testing.T, name, value string) bool {
	getenv, err := dynlib.C("getenv")
	require.NoError(t, err)
	strcmp, err := dynlib.C("strcmp")
	require.NoError(t, err)
	n, v := append([]byte(name), 0), append([]byte(value), 0)
	at, _ := dynlib.Call(getenv, uintptr(unsafe.Pointer(&n[0])))
	return at != 0 && call(strcmp, at, uintptr(unsafe.Pointer(&v[0]))) == 0
}

// UCX finds its cache turned off before any MPI is loaded, unless the user says so already;
// who wants it on is refused.
func TestUCX(t *testing.T) {
	env := map[string]string{"MLX_MPI_LIBNAME": "/nowhere/libmpi.so"}
	_, err := Open(Options{Getenv: func(name string) string { return env[name] }})
	require.ErrorContains(t, err, "no MPI library")
	for _, v := range withoutCache() {
		if !cHas(t, v.name, v.value) {
			t.Errorf("%s is not %q for C", v.name, v.value)
		}
		for _, same := range v.also {
			require.NoError(t, refuseCache(func(name string) string {
				if name == v.name {
					return same
				}
				return ""
			}))
		}
	}
	for name, value := range map[string]string{"UCX_RCACHE_ENABLE": "y", "UCX_IB_REG_METHODS": "rcache,direct"} {
		_, err := Open(Options{Getenv: func(n string) string {
			if n == name {
				return value
			}
			return ""
		}})
		require.ErrorContains(t, err, name+` is "`+value+`", want`)
		require.ErrorContains(t, err, "unset it")
	}
}
