package serve_test

import (
	"context"
	"fmt"
	"net"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/serve"
	"github.com/gomoe/gomoe/tokenizer"
)

// A server for a model of 40 tokens, which are bytes.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	listening := func() {
		fmt.Println("listening")
		cancel() // the server ends when it has begun
	}
	if err := run(ctx, "../models/testdata/olmoe", listening); err != nil {
		fmt.Println(err)
	}
	// Output: listening
}

// run serves until ctx ends. It calls listening when clients can connect.
func run(ctx context.Context, folder string, listening func()) error {
	files, err := checkpoint.Open(folder)
	if err != nil {
		return err
	}
	defer files.Close()
	model, err := models.Open(files)
	if err != nil {
		return err
	}
	data, err := tokenizer.Bytes()
	if err != nil {
		return err
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		return err
	}
	g, err := generate.Open(ctx, model, files, generate.Options{Sequences: 4, Queue: 16, Tokenizer: tok})
	if err != nil {
		return err
	}
	defer g.Close()
	server, err := serve.New(g, serve.Config{Name: "model", Tokenizer: tok})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listening()
	return server.Serve(ctx, listener)
}
