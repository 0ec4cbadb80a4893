package parts

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Part is a box of an array, which is a tensor of a file.
type Part struct {
	Tensor string   `json:"tensor"` // its name in the file
	Array  string   `json:"array"`  // the name of the array
	Shape  []int    `json:"shape"`  // of the array
	Start  []int    `json:"start"`  // where the box begins
	Sums   []uint32 `json:"sums"`   // Sum of every block of the tensor's bytes
}

const (
	format      = "gomoe snapshot 1"
	formatField = "format"
	stepField   = "step"
	partsField  = "parts"
)

// Block is how many bytes a checksum is of. A process that needs a row reads the blocks that the row lies in.
const Block = 1 << 20

// FileName returns the name of the file of process n, from 0 on, of so many.
func FileName(n, of int) string { return fmt.Sprintf("part-%05d-of-%05d.safetensors", n+1, of) }

// IsFile reports whether a file of parts may have this name.
func IsFile(name string) bool {
	ok, _ := filepath.Match("part-*-of-*.safetensors", name)
	return ok
}

// Header returns the metadata of a file with parts, and their checksum for File.Parts.
func Header(step int, list []Part) (meta map[string]string, sum string, err error) {
	text, err := json.Marshal(list)
	return map[string]string{formatField: format, stepField: strconv.Itoa(step), partsField: string(text)}, Hash(text), err
}

// Sum returns the checksum of a block: CRC-32C.
func Sum(mem []byte) uint32 { return crc32.Checksum(mem, crc32.MakeTable(crc32.Castagnoli)) }

// Places says on which hosts files lie.
func Places(files []File) string {
	var list []string
	for _, f := range files {
		if f.Host == "" {
			f.Host = "the other hosts, which share a folder"
		}
		list = append(list, fmt.Sprintf("%s on %s", f.Name, f.Host))
	}
	slices.Sort(list)
	const most = 8
	if n := len(list); n > most {
		list = append(list[:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(list, ", ")
}
