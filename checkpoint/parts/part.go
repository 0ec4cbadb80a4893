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

// Part is a box of an array, stored as a tensor of a file.
type Part struct {
	Tensor string   `json:"tensor"` // name of the tensor in the file
	Array  string   `json:"array"`  // name of the array
	Shape  []int    `json:"shape"`  // shape of the array
	Start  []int    `json:"start"`  // start of the box
	Sums   []uint32 `json:"sums"`   // Sum of every Block of the tensor's bytes
}

const (
	format      = "gomoe snapshot 1"
	formatField = "format"
	stepField   = "step"
	partsField  = "parts"
)

// Block is the number of bytes per checksum. A process reading a row reads the blocks containing it.
const Block = 1 << 20

// FileName returns the name of the file written by process n, counting from 0, of the given number of processes.
func FileName(n, of int) string { return fmt.Sprintf("part-%05d-of-%05d.safetensors", n+1, of) }

// IsFile reports whether name is a possible name of a file of parts.
func IsFile(name string) bool {
	ok, _ := filepath.Match("part-*-of-*.safetensors", name)
	return ok
}

// Header returns the metadata of a file with the given parts, and their checksum for File.Parts.
func Header(step int, list []Part) (meta map[string]string, sum string, err error) {
	text, err := json.Marshal(list)
	return map[string]string{formatField: format, stepField: strconv.Itoa(step), partsField: string(text)}, Hash(text), err
}

// Sum returns the checksum of a block, CRC-32C.
func Sum(mem []byte) uint32 { return crc32.Checksum(mem, crc32.MakeTable(crc32.Castagnoli)) }

// Places describes which hosts store the files.
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
