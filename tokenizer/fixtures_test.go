package tokenizer

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is the number of lines with one hash in the fixtures.
const block = 100

// readLines returns the lines of testdata/lines.py.
func readLines(t testing.TB) []string {
	f, err := os.Open("testdata/lines.bin.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	var out []string
	for len(data) > 0 {
		n := 2 + int(binary.LittleEndian.Uint16(data))
		out = append(out, string(data[2:n]))
		data = data[n:]
	}
	require.Len(t, out, 10_000)
	return out
}

// fixtures returns the files of an archive of testdata, by name.
func fixtures(t testing.TB, archive string) map[string][]byte {
	r, err := zip.OpenReader("testdata/" + archive)
	require.NoError(t, err)
	defer r.Close()
	out := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		require.NoError(t, err)
		out[f.Name], err = io.ReadAll(in)
		require.NoError(t, err)
	}
	return out
}

// names returns the folders of fixtures.
func names(files map[string][]byte) []string {
	var out []string
	for f := range files {
		if dir := path.Dir(f); dir != "." && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

func digest(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(sum[:])[:12]
}

func packIDs(ids []int32) string {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, int32(len(ids)))
	binary.Write(&b, binary.LittleEndian, ids)
	return b.String()
}

func packText(s string) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// Every trained tokenizer makes the ids and texts of the Python packages
// tokenizers and sentencepiece, on 10,000 lines.
func TestEqualToPython(t *testing.T) {
	lines := readLines(t)
	for _, archive := range []string{"tokenizers.zip", "pieces.zip"} {
		files := fixtures(t, archive)
		for _, name := range names(files) {
			t.Run(archive+"/"+name, func(t *testing.T) {
				t.Parallel()
				var want map[string][]string
				require.NoError(t, json.Unmarshal(files[name+"/results.json"], &want))
				if data := files[name+"/tokenizer.json"]; data != nil {
					tok, err := Parse(data)
					require.NoError(t, err)
					compare(t, lines, want, func(line string) map[string]string { return results(t, tok, line) })
				} else {
					tok, err := ParseSentencePiece(files[name+"/tokenizer.model"])
					require.NoError(t, err)
					compare(t, lines, want, func(line string) map[string]string { return pieceResults(t, tok, line) })
				}
			})
		}
	}
}

// compare holds the results of lines to be those of Python, whose hashes are in want.
func compare(t *testing.T, lines []string, want map[string][]string, results func(string) map[string]string) {
	got := map[string][]string{}
	for i := 0; i < len(lines); i += block {
		parts := map[string][]string{}
		for _, line := range lines[i : i+block] {
			for k, v := range results(line) {
				parts[k] = append(parts[k], v)
			}
		}
		for k, v := range parts {
			got[k] = append(got[k], digest(v))
		}
	}
	require.Len(t, want, len(got))
	for k := range want {
		require.Len(t, got[k], len(want[k]))
		for i := range want[k] {
			if got[k][i] != want[k][i] {
				t.Errorf("%s of lines %d to %d differ from those of Python", k, i*block, (i+1)*block-1)
				break
			}
		}
	}
}

// results is what testdata/make.py computes for a line.
func results(t testing.TB, tok *Tokenizer, line string) map[string]string {
	encode := func(o Options) []int32 {
		ids, err := tok.Encode(line, o)
		require.NoError(t, err)
		return ids
	}
	ids, bare, plain := encode(Options{}), encode(Options{Bare: true}), encode(Options{Bare: true, Plain: true})
	mixed := slices.Clone(plain)
	slices.Reverse(mixed)
	return map[string]string{
		"ids":   packIDs(ids),
		"bare":  packIDs(bare),
		"plain": packIDs(plain),
		"text":  packText(tok.Decode(ids)),
		"all":   packText(tok.DecodeAll(plain)),
		"mixed": packText(tok.DecodeAll(mixed)),
	}
}

// pieceResults is what testdata/make_pieces.py computes for a line.
func pieceResults(t testing.TB, tok *Tokenizer, line string) map[string]string {
	ids, err := tok.Encode(line, Options{Bare: true, Plain: true})
	require.NoError(t, err)
	mixed := slices.Clone(ids)
	slices.Reverse(mixed)
	return map[string]string{"ids": packIDs(ids), "text": packText(tok.DecodeAll(ids)), "mixed": packText(tok.DecodeAll(mixed))}
}
