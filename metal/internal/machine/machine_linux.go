package machine

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Code is a set of loaded functions.
type Code struct {
	text    []byte
	symbols map[string]uint64 // offsets into text
}

// Load compiles C source with the clang at path, for this architecture, and loads its functions.
// They may call only each other, and may have data only on the stack.
func Load(ctx context.Context, path, source string) (*Code, error) {
	target, ok := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("machine: %s, want amd64 or arm64", runtime.GOARCH)
	}
	dir, err := os.MkdirTemp("", "machine")
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	defer os.RemoveAll(dir)
	object := filepath.Join(dir, "code.o")
	cmd := exec.CommandContext(ctx, path, "--target="+target, "-std=c11", "-O2", "-ffreestanding", "-fPIC", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
		"-Wall", "-Werror", "-x", "c", "-c", "-o", object, "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("machine: compiling: %w: %s", err, out)
	}
	f, err := elf.Open(object)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	defer f.Close()
	c := &Code{symbols: map[string]uint64{}}
	if err := c.load(f); err != nil {
		c.Close()
		return nil, fmt.Errorf("machine: %w", err)
	}
	return c, nil
}

func (c *Code) load(f *elf.File) error {
	section := f.Section(".text")
	if section == nil {
		return errors.New("there is no code")
	}
	text, err := section.Data()
	if err != nil {
		return err
	}
	symbols, err := f.Symbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if int(s.Section) < len(f.Sections) && f.Sections[s.Section] == section {
			c.symbols[s.Name] = s.Value
		}
	}
	if rela := f.Section(".rela.text"); rela != nil {
		data, err := rela.Data()
		if err != nil {
			return err
		}
		if err := c.relocate(text, data, symbols); err != nil {
			return err
		}
	}
	if c.text, err = unix.Mmap(-1, 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
		return err
	}
	copy(c.text, text) // the pages are new, so no instruction cache holds old contents of them
	return unix.Mprotect(c.text, unix.PROT_READ|unix.PROT_EXEC)
}

// relocate fills in the targets of calls, the only relocations supported.
func (c *Code) relocate(text, rela []byte, symbols []elf.Symbol) error {
	for ; len(rela) >= 24; rela = rela[24:] {
		at, info := binary.LittleEndian.Uint64(rela), binary.LittleEndian.Uint64(rela[8:])
		addend := int64(binary.LittleEndian.Uint64(rela[16:]))
		name := symbols[info>>32-1].Name
		to, ok := c.symbols[name]
		if !ok {
			return fmt.Errorf("%s is not in the code, want functions only that call each other", name)
		}
		distance := int64(to) + addend - int64(at)
		word := binary.LittleEndian.Uint32(text[at:])
		switch kind := uint32(info); {
		case runtime.GOARCH == "arm64" && elf.R_AARCH64(kind) == elf.R_AARCH64_CALL26:
			word |= uint32(distance/4) & (1<<26 - 1)
		case runtime.GOARCH == "amd64" && (elf.R_X86_64(kind) == elf.R_X86_64_PLT32 || elf.R_X86_64(kind) == elf.R_X86_64_PC32):
			word = uint32(distance)
		default:
			return fmt.Errorf("%s is referred to by relocation %d, want calls only", name, kind)
		}
		binary.LittleEndian.PutUint32(text[at:], word)
	}
	return nil
}

// Function returns the address of a function.
func (c *Code) Function(name string) (uintptr, error) {
	offset, ok := c.symbols[name]
	if !ok {
		return 0, fmt.Errorf("machine: there is no function %s", name)
	}
	return uintptr(unsafe.Pointer(&c.text[offset])), nil
}

// Close unloads the functions.
func (c *Code) Close() {
	if c.text != nil {
		_ = unix.Munmap(c.text)
		c.text = nil
	}
}
