package generate_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/models"
)

// A model continues a prompt of three tokens with five.
func Example() {
	if err := write(context.Background(), "../models/testdata/olmoe"); err != nil {
		fmt.Println(err)
	}
	// Output: 28 16 11 16 11
}

func write(ctx context.Context, folder string) error {
	files, err := checkpoint.Open(folder)
	if err != nil {
		return err
	}
	defer files.Close()
	model, err := models.Open(files)
	if err != nil {
		return err
	}
	g, err := generate.Open(ctx, model, files, generate.Options{Room: 16, Sequences: 4})
	if err != nil {
		return err
	}
	defer g.Close()
	_, err = g.Generate(ctx, generate.Request{Prompt: []int32{1, 2, 3}, N: 5}, func(t generate.Token) bool {
		fmt.Print(t.ID, " ")
		return true
	})
	return err
}
