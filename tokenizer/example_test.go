package tokenizer_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/tokenizer"
)

// A model that is trained on bytes has a tokenizer of bytes in its folder, which
// transformers opens as well.
func Example() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data, err := tokenizer.Bytes()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644); err != nil {
		log.Fatal(err)
	}

	t, err := tokenizer.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	ids, err := t.Encode("für", tokenizer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	fmt.Println(t.Decode(ids))

	// As a model generates tokens: the character ü comes with its second byte.
	s := t.Stream()
	for _, id := range ids {
		fmt.Printf("%q ", s.Push(id))
	}
	fmt.Printf("%q\n", s.Flush())
	// Output:
	// [102 195 188 114]
	// für
	// "f" "" "ü" "r" ""
}
