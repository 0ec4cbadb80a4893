package data_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/tokenizer"
)

// Lines of text become batches of tokens.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	lines := filepath.Join(dir, "lines.jsonl")
	if err := os.WriteFile(lines, []byte("{\"text\": \"abcd\"}\n{\"prompt\": \"ef\", \"completion\": \"gh\"}\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	file, err := tokenizer.Bytes()
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.Parse(file)
	if err != nil {
		log.Fatal(err)
	}

	path := filepath.Join(dir, "train.tokens")
	if _, err := data.Build(context.Background(), path, []string{lines}, data.Options{Tokenizer: tok}); err != nil {
		log.Fatal(err)
	}
	set, err := data.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	batches, err := set.Batches(data.Order{Rows: 2, Length: 4, InTurn: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{data.Tokens, data.Targets} {
		a, err := batches.Step(0).Array(name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %q %d\n", name, tok.Decode(array.Data[int32](a)[:4]), array.Data[int32](a))
	}
	weights, err := batches.Step(0).Array(data.Weights)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(data.Weights, array.Data[float32](weights))
	// Output:
	// tokens "abcd" [97 98 99 100 101 102 103 104]
	// targets "bcd\x00" [98 99 100 0 102 103 104 0]
	// weights [1 1 1 0 0 1 1 0]
}
