package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/internal/quoted"
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
func open(getenv func(string) string) (*library, error) {
	names, from := candidates(getenv)
	l := &library{}
	if err := dynlib.First(names, l.bind); err != nil {
		return nil, fmt.Errorf("mpi: no MPI library, %s: %w; install one (Debian: openmpi-bin, or mpich; macOS: brew install open-mpi), or name its file in MLX_MPI_LIBNAME", from, err)
	}
	return l, nil
}

// candidates returns the file names to try, and a text with the reason.
func candidates(getenv func(string) string) (names []string, why string) {
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

// handle is MPI's name of something: a pointer in Open MPI, an int in MPICH.
type handle uintptr

// abi is how an MPI names and lays out things. There are two: Open MPI's, and
// MPICH's, which Intel MPI, MVAPICH and Cray's share.
type abi struct {
	openMPI     bool
	handleBytes int // size of a handle in an array
	statusBytes int // sizeof(MPI_Status)
	statusError int // offset of MPI_ERROR in it

	world, bytes, errorsReturn, noRequest handle
}

// abiOf returns the ABI of a library, recognised by the library's version text.
func abiOf(version string, find func(string) (uintptr, error)) (abi, error) {
	switch {
	case strings.Contains(version, "Open MPI"):
		a := abi{openMPI: true, handleBytes: 8, statusBytes: 24, statusError: 8}
		for name, h := range map[string]*handle{
			"ompi_mpi_comm_world": &a.world, "ompi_mpi_byte": &a.bytes, "ompi_mpi_errors_return": &a.errorsReturn, "ompi_request_null": &a.noRequest,
		} {
			p, err := find(name)
			if err != nil {
				return abi{}, fmt.Errorf("it says that it is %s and has no %s", quoted.Text(firstLine(version)), name)
			}
			*h = handle(p)
		}
		return a, nil
	case strings.Contains(version, "MPICH"), strings.Contains(version, "Intel(R) MPI"), strings.Contains(version, "MVAPICH"):
		return abi{handleBytes: 4, statusBytes: 20, statusError: 16, world: 0x44000000, bytes: 0x4c00010d, errorsReturn: 0x54000001, noRequest: 0x2c000000}, nil
	}
	return abi{}, fmt.Errorf("it says that it is %s, want Open MPI or one of the family of MPICH", quoted.Text(firstLine(version)))
}

// slot returns the memory of the i-th handle of an array, for MPI to write to.
func (a *abi) slot(mem []byte, i int) unsafe.Pointer { return unsafe.Pointer(&mem[i*a.handleBytes]) }

// move copies the handle at from to the one at to.
func (a *abi) move(mem []byte, to, from int) {
	copy(mem[to*a.handleBytes:][:a.handleBytes], mem[from*a.handleBytes:])
}

// words returns n bytes at an address that is a multiple of 8.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))[:n:n]
}

// launched returns the number of ranks started by the launcher, and the environment
// variable with that number; empty texts if there is no launcher.
func launched(getenv func(string) string) (variable, size string) {
	variables := []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}
	if bySrun(getenv) {
		variables = append(variables, "SLURM_STEP_NUM_TASKS")
	}
	for _, v := range variables {
		if s := getenv(v); s != "" {
			return v, s
		}
	}
	return "", ""
}

// bySrun reports whether Slurm's srun has started this process directly, rather than the
// daemons of another launcher.
func bySrun(getenv func(string) string) bool {
	return getenv("SLURM_STEP_ID") != "" && getenv("OMPI_COMM_WORLD_SIZE") == "" && getenv("MPI_LOCALNRANKS") == "" // mpiexec sets the latter
}

// errNoPMIx is the error of a start that would make Open MPI end the process.
var errNoPMIx = errors.New("srun has started this process and tells it nothing by PMIx, by which Open MPI finds the other ranks: " +
	"start with srun --mpi=pmix (srun --mpi=list says what this Slurm has), or with mpirun; " +
	"if this Open MPI was built with Slurm's PMI-1 or PMI-2, set OMPI_MCA_pmix=s1 or s2; a process that is to be alone is started without srun")

// startable returns an error if MPI_Init is known to end the process: with Open MPI in a
// step of srun that has no PMIx server.
func (l *library) startable(getenv func(string) string) error {
	if !l.openMPI || !bySrun(getenv) || getenv("PMIX_NAMESPACE") != "" || getenv("OMPI_MCA_pmix") != "" {
		return nil
	}
	return fmt.Errorf("mpi: open: %s (%s): %w", l.name, l.version, errNoPMIx)
}

// together returns an error if the launcher started several ranks as one job, but each of
// them is a job of one rank to the library.
func (w *World) together(getenv func(string) string) error {
	variable, size := launched(getenv)
	n, err := strconv.Atoi(size)
	if err != nil || n == w.size {
		return nil
	}
	remedy := "this library is not of the launcher that started this process; name the launcher's in MLX_MPI_LIBNAME, or start with this library's mpirun"
	if bySrun(getenv) {
		remedy = "srun has started the ranks, and this library does not find them by what srun tells; start Open MPI with srun --mpi=pmix and MPICH with --mpi=pmi2 (srun --mpi=list), " +
			"or with this library's mpirun, or name another library in MLX_MPI_LIBNAME"
	}
	return fmt.Errorf("mpi: open: %s (%s) has %d ranks and %s is %d: %s", w.lib.name, w.lib.version, w.size, variable, n, remedy)
}

// withoutCache returns the variables that turn off a cache of UCX, over which Open MPI
// and MPICH use InfiniBand. The cache holds the memory that UCX has registered with a
// device. UCX watches the C library to notice freed memory, but Go's runtime calls the
// system itself. With the cache, a device would write to pages that the process no longer
// has, and read old ones. The first variable works in UCX from 1.12 on, the second in
// older versions.
func withoutCache() []variable {
	return []variable{
		{"UCX_RCACHE_ENABLE", "n", []string{"n", "no", "off", "0", "false"}},
		{"UCX_IB_REG_METHODS", "direct", []string{"direct", "odp", "odp,direct", "direct,odp"}},
	}
}

type variable struct {
	name, value string
	also        []string // the values that a user may have set, because they also turn the cache off
}

// refuseCache sets the variables that turn UCX's cache off, in the C library's
// environment, which is separate from package os. MPI's libraries read them while being
// loaded. A variable set by the user is left alone; it is an error if it has another
// value.
func refuseCache(getenv func(string) string) error {
	setenv, err := dynlib.C("setenv")
	if err != nil {
		return fmt.Errorf("mpi: open: the C library: %w", err)
	}
	for _, v := range withoutCache() {
		switch was := getenv(v.name); {
		case was == "":
			name, value := append([]byte(v.name), 0), append([]byte(v.value), 0)
			if rc := call(setenv, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&value[0])), 1); rc != 0 {
				return fmt.Errorf("mpi: open: the C library's setenv of %s returned %d", v.name, rc)
			}
		case !slices.Contains(v.also, strings.ToLower(was)):
			return fmt.Errorf("mpi: open: %s is %s, want %s or nothing: UCX would keep memory registered that Go has given back to the system, and data would be lost; unset it", v.name, quoted.Text(was), quoted.Text(v.value))
		}
	}
	return nil
}

// signals are the handlers of this process, by number, as the C library returns them.
type signals struct {
	sigaction uintptr
	actions   [32][]byte
}

// actionBytes is more than struct sigaction has anywhere: glibc's has 152 bytes.
const actionBytes = 256

// handlers returns the handler of each signal.
func handlers() *signals {
	s := &signals{}
	var err error
	if s.sigaction, err = dynlib.C("sigaction"); err != nil {
		return s // empty; not reached on systems that can load MPI
	}
	for sig := 1; sig < len(s.actions); sig++ {
		b := words(actionBytes)
		if call(s.sigaction, uintptr(sig), 0, uintptr(unsafe.Pointer(&b[0]))) == 0 {
			s.actions[sig] = b
		}
	}
	return s
}

// restore puts the handlers back. Go's runtime depends on its own handlers: it turns
// faults into panics, and preempts goroutines by a signal.
func (s *signals) restore() {
	for sig, b := range s.actions {
		if b != nil {
			call(s.sigaction, uintptr(sig), uintptr(unsafe.Pointer(&b[0])), 0) // fails for SIGKILL and SIGSTOP, which cannot be changed
		}
	}
}
