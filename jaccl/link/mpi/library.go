package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/jaccl/job/environ"
)

// library is a loaded MPI library.
type library struct {
	name    string // the file name under which it was loaded
	version string // the first line of its version text
	abi
	fn functions
}

// functions are the addresses of MPI's functions.
type functions struct {
	initialized, finalized, initThread, finalize               uintptr
	commRank, commSize, commDup, setErrhandler                 uintptr
	isend, irecv, testsome, cancel, getCount                   uintptr
	iallgather, iallgatherv, ibarrier                          uintptr
	createHindexed, typeCommit, typeFree, errorString, version uintptr
}

// open finds MPI and binds it. If the user gave no name, it tries the names of the MPI
// with the launcher that started this process, then all names.
func open(given string, getenv func(string) string) (*library, error) {
	names, from := candidates(given, getenv)
	l := &library{}
	if err := dynlib.First(names, l.bind); err != nil {
		return nil, fmt.Errorf("mpi: no MPI library, %s: %w; install one (Debian: openmpi-bin, or mpich; macOS: brew install open-mpi), or name its file in MLX_MPI_LIBNAME or Options.Library", from, err)
	}
	return l, nil
}

// candidates returns the file names to try, and a text with the reason.
func candidates(given string, getenv func(string) string) (names []string, why string) {
	if given != "" {
		return []string{given}, "named by Options.Library"
	}
	if name, variable := environ.MPI(getenv); name != "" {
		return []string{name}, "named by " + variable
	}
	openMPI := []string{"libmpi.so.40", "libmpi.so.80"}
	mpich := []string{"libmpi.so.12", "libmpich.so.12"} // the latter is Debian's
	rest := []string{"libmpi.so"}
	if runtime.GOOS == "darwin" {
		openMPI = []string{"libmpi.40.dylib", "/opt/homebrew/lib/libmpi.40.dylib", "/opt/homebrew/opt/open-mpi/lib/libmpi.40.dylib", "/usr/local/lib/libmpi.40.dylib", "/opt/local/lib/openmpi-mp/libmpi.40.dylib"}
		mpich = []string{"libmpi.12.dylib", "/opt/homebrew/lib/libmpi.12.dylib", "/opt/homebrew/opt/mpich/lib/libmpi.12.dylib", "/usr/local/lib/libmpi.12.dylib"}
		rest = []string{"libmpi.dylib", "/opt/homebrew/lib/libmpi.dylib"}
	}
	switch {
	case getenv("OMPI_COMM_WORLD_SIZE") != "":
		return append(openMPI, rest...), "of Open MPI, whose mpirun started this process"
	case bySrun(getenv) && getenv("PMI_SIZE") != "": // PMI-2, which MPICH speaks, and some builds of Open MPI
		return append(append(mpich, openMPI...), rest...), "of any kind, as srun started this process"
	case bySrun(getenv):
		return append(append(openMPI, mpich...), rest...), "of any kind, as srun started this process"
	case getenv("PMI_SIZE") != "":
		return append(mpich, rest...), "of the family of MPICH, whose mpiexec started this process"
	}
	return append(append(openMPI, mpich...), rest...), "of any kind, as no mpirun started this process"
}

// bind finds the functions of the named library, and its version.
func (l *library) bind(name string, lib dynlib.Library) error {
	l.name = name
	if missing := lib.Bind([]dynlib.Function{
		{Name: "MPI_Initialized", To: &l.fn.initialized}, {Name: "MPI_Finalized", To: &l.fn.finalized}, {Name: "MPI_Init_thread", To: &l.fn.initThread}, {Name: "MPI_Finalize", To: &l.fn.finalize},
		{Name: "MPI_Comm_rank", To: &l.fn.commRank}, {Name: "MPI_Comm_size", To: &l.fn.commSize}, {Name: "MPI_Comm_dup", To: &l.fn.commDup}, {Name: "MPI_Comm_set_errhandler", To: &l.fn.setErrhandler},
		{Name: "MPI_Isend", To: &l.fn.isend}, {Name: "MPI_Irecv", To: &l.fn.irecv}, {Name: "MPI_Testsome", To: &l.fn.testsome}, {Name: "MPI_Cancel", To: &l.fn.cancel},
		{Name: "MPI_Get_count", To: &l.fn.getCount}, {Name: "MPI_Iallgather", To: &l.fn.iallgather}, {Name: "MPI_Iallgatherv", To: &l.fn.iallgatherv}, {Name: "MPI_Ibarrier", To: &l.fn.ibarrier},
		{Name: "MPI_Type_create_hindexed", To: &l.fn.createHindexed}, {Name: "MPI_Type_commit", To: &l.fn.typeCommit}, {Name: "MPI_Type_free", To: &l.fn.typeFree}, {Name: "MPI_Error_string", To: &l.fn.errorString},
		{Name: "MPI_Get_library_version", To: &l.fn.version},
	}...); missing != nil {
		return fmt.Errorf("it is no MPI 3: no %s", strings.Join(missing, ", "))
	}
	text := make([]byte, 8192+1) // MPI_MAX_LIBRARY_VERSION_STRING; MPICH's is the largest
	var n int32
	if rc := call(l.fn.version, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n))); rc != 0 {
		return fmt.Errorf("MPI_Get_library_version returned %d", rc)
	}
	whole := string(text[:min(max(int(n), 0), len(text)-1)])
	l.version = firstLine(whole)
	var err error
	l.abi, err = abiOf(whole, lib.Symbol)
	return err
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimRight(s, "\x00 ")
}

// call calls a C function of integers and pointers returning an int; see dynlib.Call for
// the pointers.
//
//go:uintptrescapes
func call(fn uintptr, a ...uintptr) int32 {
	r, _ := dynlib.Call(fn, a...)
	return int32(r)
}

// Error is an error code of MPI.
type Error struct {
	Function string
	Code     int32
	Text     string // MPI's own
}

func (e *Error) Error() string {
	return fmt.Sprintf("mpi: %s: %s (code %d)", e.Function, e.Text, e.Code)
}

// error describes a return code, nil for success.
func (l *library) error(function string, rc int32) error {
	if rc == 0 {
		return nil
	}
	text := make([]byte, 8192+1)
	var n int32
	if call(l.fn.errorString, uintptr(rc), uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n))) != 0 {
		n = 0
	}
	return &Error{function, rc, strings.TrimRight(string(text[:min(max(int(n), 0), len(text)-1)]), "\x00 \n")}
}

var errFinalized = errors.New("mpi: open: MPI was finalized in this process, and MPI starts once; open one World per process")

func environment(getenv func(string) string) func(string) string {
	if getenv == nil {
		return os.Getenv
	}
	return getenv
}
