package link_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// One exchange of two ranks. Each sends a head, hears the other's, and only then takes its
// data. The links are of the kind that tests use.
func ExampleLink() {
	said := make([]string, 2)
	var running sync.WaitGroup
	for rank, l := range jaccltest.Links(2) {
		running.Go(func() {
			defer l.Close()
			data := make([]byte, 5)
			x := link.Exchange{
				Peers: []int{1 - rank},
				Head:  []byte("head of " + fmt.Sprint(rank)),
				Heads: func(heads [][]byte) error {
					said[rank] = string(heads[0])
					return nil
				},
				Send: [][][]byte{{[]byte("hello")}},
				Recv: [][][]byte{{data}},
			}
			err := l.Exchange(context.Background(), &x)
			said[rank] += fmt.Sprintf(", data %q, %v", data, err)
		})
	}
	running.Wait()
	fmt.Println(said[0])
	// Output: head of 1, data "hello", <nil>
}
