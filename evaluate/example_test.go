package evaluate_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/evaluate"
	"github.com/gomoe/gomoe/models"
)

func ExampleText() {
	files, err := checkpoint.Open("../models/testdata/olmoe")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()
	model, err := models.Open(files)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := evaluate.Text(context.Background(), model, files, []int32{5, 3, 17, 20, 2, 9}, evaluate.Options{Window: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d windows, %d of %d tokens predicted, perplexity %.1f\n", r.Windows, r.Predicted, r.Tokens, r.Perplexity())
	// Output: 2 windows, 4 of 6 tokens predicted, perplexity 126.7
}
