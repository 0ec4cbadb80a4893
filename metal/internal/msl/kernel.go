package msl

// Kernel is a launchable kernel: a kernel function, or an explicit instantiation of a kernel
// template under its host name.
type Kernel struct {
	Name       string
	Params     []Param
	MaxThreads int // [[max_total_threads_per_threadgroup(n)]], 0 if not given
}

// Param is a parameter of a kernel.
type Param struct {
	Source Source
	Index  int    // the index of a Buffer or a Memory
	Type   string // as written, with the address space and * or &
	Name   string
}

// Source is where a kernel's parameter comes from.
type Source int

// The sources of parameters. The comment of each names the attribute selecting it.
const (
	Unknown     Source = iota // no attribute; the parameter is zero
	Buffer                    // [[buffer(n)]]
	Memory                    // [[threadgroup(n)]]
	InGrid                    // thread_position_in_grid
	InGroup                   // thread_position_in_threadgroup
	Group                     // threadgroup_position_in_grid
	ThreadIndex               // thread_index_in_threadgroup
	Lane                      // thread_index_in_simdgroup
	Simdgroup                 // simdgroup_index_in_threadgroup
	Size                      // threads_per_threadgroup: the size of this threadgroup, smaller at a grid's edge
	FullSize                  // dispatch_threads_per_threadgroup
	Groups                    // threadgroups_per_grid
	Grid                      // threads_per_grid
	Width                     // threads_per_simdgroup
	Simdgroups                // simdgroups_per_threadgroup
)

// source returns the Source selected by an attribute, Unknown if it selects none.
func source(attribute string) Source {
	switch attribute {
	case "buffer":
		return Buffer
	case "threadgroup":
		return Memory
	case "thread_position_in_grid":
		return InGrid
	case "thread_position_in_threadgroup":
		return InGroup
	case "threadgroup_position_in_grid":
		return Group
	case "thread_index_in_threadgroup":
		return ThreadIndex
	case "thread_index_in_simdgroup":
		return Lane
	case "simdgroup_index_in_threadgroup":
		return Simdgroup
	case "threads_per_threadgroup":
		return Size
	case "dispatch_threads_per_threadgroup":
		return FullSize
	case "threadgroups_per_grid":
		return Groups
	case "threads_per_grid":
		return Grid
	case "threads_per_simdgroup", "thread_execution_width":
		return Width
	case "simdgroups_per_threadgroup", "dispatch_simdgroups_per_threadgroup":
		return Simdgroups
	}
	return Unknown
}

// shim returns the name of a source in the shim's msl::Source.
func (s Source) shim() string {
	return [...]string{"ZERO", "BUFFER", "MEMORY", "IN_GRID", "IN_GROUP", "GROUP", "INDEX", "LANE", "SIMDGROUP", "SIZE", "FULL_SIZE", "GROUPS", "GRID", "WIDTH", "SIMDGROUPS"}[s]
}

// Constant is a function constant.
type Constant struct {
	Name  string
	Type  string
	Index int
}
