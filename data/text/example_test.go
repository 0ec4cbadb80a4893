package text_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/data/text"
)

// A batch is a function of the seed and the step. The target of a byte is the one that follows it.
func Example() {
	dir, err := os.MkdirTemp("", "text")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("abcd", 100)), 0o644); err != nil {
		log.Fatal(err)
	}
	corpus, err := text.Load(context.Background(), text.Options{Data: path, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	bytes, targets, err := corpus.Batch(1, 1, 8) // step 1, one sequence of 8 bytes
	if err != nil {
		log.Fatal(err)
	}
	follows := true
	for i := range targets {
		follows = follows && targets[i] == 'a'+(bytes[i]-'a'+1)%4
	}
	_, bits := corpus.UnigramEntropy()
	fmt.Println(len(bytes), follows, bits)
	// Output: 8 true 2
}
