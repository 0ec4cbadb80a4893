package msl

import (
	"fmt"
	"strconv"
	"strings"
)

// tables returns C++ text: a function for each kernel, binding its parameters, and the tables
// msl_kernels and msl_fcs of abi.h.
func (r *rewriter) tables() string {
	var b, rows strings.Builder
	n := 0
	add := func(k Kernel, expr string) {
		fmt.Fprintf(&b, "static void msl_entry_%d(void* msl_g, void* msl_l) { msl::call(&%s, msl_g, msl_l", n, expr)
		for _, p := range k.Params {
			fmt.Fprintf(&b, ", msl::From<msl::%s, %d>{}", p.Source.shim(), p.Index)
		}
		b.WriteString("); }\n")
		fmt.Fprintf(&rows, "  {%s, msl_entry_%d, %s},\n", strconv.Quote(k.Name), n, strconv.Quote(k.Args()))
		n++
	}
	for _, f := range r.functions {
		if !f.template {
			add(f.Kernel, f.Name)
		}
	}
	for _, in := range r.instances {
		k := r.base(in).Kernel
		k.Name = in.name
		add(k, in.expr)
	}
	const export = "__attribute__((visibility(\"default\"))) "
	fmt.Fprintf(&b, "%smsl_kernel msl_kernels[] = {\n%s  {0, 0, 0}};\n", export, rows.String())
	fmt.Fprintf(&b, "%smsl_constant msl_fcs[] = {\n", export)
	for _, c := range r.constants {
		fmt.Fprintf(&b, "  {%s, %d, sizeof %s, (void*)&%s},\n", strconv.Quote(c.Name), c.Index, c.Name, c.Name)
	}
	b.WriteString("  {0, 0, 0, 0}};\n" + export + "uint32_t msl_fcs_busy = 0;\n")
	return b.String()
}

// Args returns the memory arguments of k in the form defined by abi.h, followed by "threads:n;" if
// the kernel limits the threads of a threadgroup.
func (k Kernel) Args() string {
	var b strings.Builder
	for _, p := range k.Params {
		switch p.Source {
		case Buffer:
			fmt.Fprintf(&b, "buf%d:%s %s;", p.Index, p.Type, p.Name)
		case Memory:
			fmt.Fprintf(&b, "tgmem%d:%s %s;", p.Index, p.Type, p.Name)
		}
	}
	if k.MaxThreads > 0 {
		fmt.Fprintf(&b, "threads:%d;", k.MaxThreads)
	}
	return b.String()
}
