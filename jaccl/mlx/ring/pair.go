package ring

import "sync"

// pieceBytes is the least that MLX sends on a connection before using the next.
const pieceBytes = 1024

// pieces divides b among the connections, calls f for all of them at once, and returns
// when all calls have returned.
func pieces(ws []*wire, b []byte, f func(w *wire, b []byte) error) error {
	length := max(pieceBytes, (len(b)+len(ws)-1)/len(ws))
	errs := make([]error, len(ws))
	var wg sync.WaitGroup
	for i, w := range ws {
		if i*length >= len(b) {
			break
		}
		wg.Go(func() { errs[i] = f(w, b[i*length:min(len(b), (i+1)*length)]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *operation) send(ws []*wire, b []byte) error {
	return pieces(ws, b, func(w *wire, b []byte) error {
		w.toSend.Add(int64(len(b)))
		return o.write(w, b)
	})
}

func (o *operation) receive(ws []*wire, b []byte) error {
	return pieces(ws, b, func(w *wire, b []byte) error {
		w.toReceive.Add(int64(len(b)))
		w.in.Lock()
		defer w.in.Unlock()
		return o.read(w, b)
	})
}

// towards returns the connections that MLX uses to send to a rank, nil for a rank that is
// not a neighbour. In a ring of two ranks, each is the other's neighbour on both sides: a
// rank sends to the right and receives from the left.
func (m *comm) towards(to int) []*wire {
	n := len(m.names)
	switch {
	case n == 1:
	case to == (m.rank+1)%n:
		return m.right
	case to == (m.rank+n-1)%n:
		return m.left
	}
	return nil
}

// behind returns the connections that MLX uses to receive from a rank, nil for a rank
// that is not a neighbour.
func (m *comm) behind(from int) []*wire {
	n := len(m.names)
	switch {
	case n == 1:
	case from == (m.rank+n-1)%n:
		return m.left
	case from == (m.rank+1)%n:
		return m.right
	}
	return nil
}
