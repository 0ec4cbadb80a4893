package meet

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is a listener whose connections, but for the first one, take their time after each
// write, as if another thread had the processor: the other side goes on meanwhile.
type slow struct {
	net.Listener
	accepted atomic.Int32
}

func (l *slow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.accepted.Add(1) == 1 {
		return c, err
	}
	return slowConn{c}, nil
}

type slowConn struct{ net.Conn }

func (c slowConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	time.Sleep(100 * time.Millisecond)
	return n, err
}

// A rank that closes its place as soon as it has its connections does not end one whose
// other side has heard the welcome while this side is still about it.
func TestCloseBehindWelcome(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	os := options(t, 2)
	os[0].Coordinator, os[1].Coordinator = ln.Addr().String(), ln.Addr().String()
	os[0].Listener = &slow{Listener: ln}
	places := joined(t, os)
	conns := make([]net.Conn, 2)
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() {
			all, err := p.Dial(t.Context(), "test")
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = all[1-i]
			p.Close()
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	defer conns[0].Close()
	defer conns[1].Close()
	_, err = conns[1].Write([]byte("hello"))
	require.NoError(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(conns[0], b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
}
