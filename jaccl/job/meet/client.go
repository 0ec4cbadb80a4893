package meet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/internal/quoted"
)

// client is the connection to the coordinator of a rank other than 0.
type client struct {
	rank, size int
	host       string
	conn       net.Conn
	deadline   time.Duration
}

// grace is the time that a rank waits longer than the coordinator, which has a better
// error: the coordinator knows the missing ranks.
const grace = 3 * time.Second

func (c *client) gather(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error) {
	all, err := c.exchange(ctx, number, key, mine)
	var f *failure
	switch {
	case err == nil:
		return all, nil
	case errors.As(err, &f):
		return nil, f
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		c.conn.SetWriteDeadline(time.Now().Add(time.Second))
		frame.Write(c.conn, typeFailure, number, []byte(clip(departure(fmt.Sprintf("rank %d (%s)", c.rank, c.host), key, cause))))
		return nil, fmt.Errorf("meet: %s: %w", quoted.Text(key), cause)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("meet: %s: rank 0 at %v does not answer within %v", quoted.Text(key), c.conn.RemoteAddr(), c.deadline+grace)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("meet: %s: rank 0 at %v has ended or closed its place", quoted.Text(key), c.conn.RemoteAddr())
	}
	return nil, fmt.Errorf("meet: %s: rank 0 at %v: %w", quoted.Text(key), c.conn.RemoteAddr(), err)
}

// departure describes a rank that has left a place. A rank ended by a signal has often
// been told to end, because another rank has failed.
func departure(name, key string, cause error) string {
	if errors.Is(cause, context.Canceled) {
		return fmt.Sprintf("meet: %s was told to end (%v) while it waited for others in %s", name, cause, quoted.Text(key))
	}
	return fmt.Sprintf("meet: %s left %s: %v", name, quoted.Text(key), cause)
}

func (c *client) exchange(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error) {
	defer bound(ctx, c.conn, c.deadline+grace)()
	// A write error means that the coordinator has closed the connection; its last message
	// may still be readable.
	sent := frame.Write(c.conn, typeGather, number, frame.Bytes(frame.String(nil, key), mine))
	_, head, err := read(c.conn, typeResult, number, min(maxResult, c.size*maxGather)+4*c.size)
	if err != nil {
		if sent != nil && !errors.As(err, new(*failure)) {
			err = sent
		}
		return nil, err
	}
	f := frame.NewFields(head)
	all := make([][]byte, c.size)
	for i := range all {
		all[i] = f.Bytes(maxGather)
	}
	return all, f.End()
}

func (c *client) close() {
	c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	frame.Write(c.conn, typeLeave, 0, nil)
	hangUp(c.conn)
}
