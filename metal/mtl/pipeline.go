package mtl

import (
	"fmt"
	"strings"
	"unsafe"
)

type pipelineKey struct {
	library             *Library
	function, constants string
}

// Pipeline is a function of a library, specialized by its constants and compiled for the GPU. The
// device owns it.
type Pipeline struct {
	object
	function string
	facts    PipelineFacts
}

// PipelineFacts are properties of a compiled function.
type PipelineFacts struct {
	MaxThreads   int // limit of threads per threadgroup; low if each thread needs many registers
	Width        int // threads of a simdgroup
	StaticMemory int // bytes of threadgroup memory declared in the function itself
}

// Function is the function's name.
func (p *Pipeline) Function() string { return p.function }

// Facts returns the properties of the compiled function.
func (p *Pipeline) Facts() PipelineFacts { return p.facts }

// Pipeline returns the pipeline of a function of l with the given values of its constants. For the
// same arguments it returns the same Pipeline again. It blocks while compiling.
func (d *Device) Pipeline(l *Library, function string, constants ...Constant) (*Pipeline, error) {
	if _, err := d.open("pipeline " + function); err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("mtl: pipeline %s: the library is nil", function)
	}
	list, text, err := sorted(constants)
	if err != nil {
		return nil, fmt.Errorf("mtl: pipeline %s: %w", function, err)
	}
	key := pipelineKey{l, function, text}
	e := share(&d.mu, d.pipelines, key)
	p, err := e.do(func() (*Pipeline, error) { return d.pipeline(l, function, list) })
	if err != nil {
		forget(&d.mu, d.pipelines, key, e)
	}
	return p, err
}

func (d *Device) pipeline(l *Library, function string, constants []Constant) (*Pipeline, error) {
	rt, op := d.rt, "pipeline "+function
	p := &Pipeline{function: function}
	err := rt.Pool(func() error {
		f, err := rt.function(l, function, constants)
		if err != nil {
			return err
		}
		defer rt.msg(f, rt.sel.release)
		failure := new(uintptr)
		id := rt.msg(d.id.Load(), rt.sel.newPipeline, f, uintptr(unsafe.Pointer(failure)))
		if id == 0 {
			return rt.failure(op, *failure)
		}
		p.own(rt, id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	id := p.id.Load()
	p.facts = PipelineFacts{
		MaxThreads:   int(rt.msg(id, rt.sel.maxTotalThreads)),
		Width:        int(rt.msg(id, rt.sel.executionWidth)),
		StaticMemory: int(rt.msg(id, rt.sel.staticMemory)),
	}
	return p, nil
}

// function returns a function of l. The caller must release it.
func (rt *Runtime) function(l *Library, name string, constants []Constant) (uintptr, error) {
	library := l.id.Load()
	if library == 0 {
		return 0, fmt.Errorf("mtl: pipeline %s: the library is closed", name)
	}
	var f uintptr
	failure := new(uintptr)
	if len(constants) == 0 {
		f = rt.msg(library, rt.sel.newFunction, rt.nsstring(name))
	} else {
		values := rt.constantValues(constants)
		defer rt.msg(values, rt.sel.release)
		f = rt.msg(library, rt.sel.newFunctionConstants, rt.nsstring(name), values, uintptr(unsafe.Pointer(failure)))
	}
	switch {
	case f != 0:
		return f, nil
	case *failure != 0:
		return 0, rt.failure("pipeline "+name, *failure)
	}
	return 0, fmt.Errorf("mtl: pipeline %s: the library has no such function, it has %s", name, strings.Join(l.Functions(), ", "))
}
