package meet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ranks meet again. A quick rank does not disturb the meeting that the others have yet to
// leave, and no rank is kept out by a meeting that only some ranks have tried in between.
func TestMeetings(t *testing.T) {
	os := options(t, 3)
	for i := range os {
		os[i].Meetings = &Meetings{}
	}
	number := func(want int, places []*Place) {
		t.Helper()
		for i, p := range places {
			if p.hello.meeting != want || os[i].Meetings.last != want {
				t.Errorf("rank %d is at meeting %d, and its last one is %d, want %d", i, p.hello.meeting, os[i].Meetings.last, want)
			}
		}
		exercise(t, places)
	}
	first := joined(t, os)
	number(1, first)

	require.NoError(t, first[2].Close())
	quick := make(chan *Place, 1)
	go func() {
		p, err := Join(t.Context(), os[2])
		if err != nil {
			t.Errorf("the rank that was quick: %v", err)
		}
		quick <- p
	}()
	for end := time.Now().Add(2 * time.Minute); first[0].door.turned() == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the quick rank was not turned away from the meeting at which it was")
		}
	}
	require.NoError(t, first[1].Close())
	require.NoError(t, first[0].Close())
	again, errs := join(t, os[:2])
	require.Equal(t, []error{nil, nil}, errs)
	p := <-quick
	require.NotNil(t, p)
	defer p.Close()
	number(2, append(again, p))
	for _, p := range append(again, p) {
		require.NoError(t, p.Close())
	}

	for _, alone := range []int{0, 0, 1, 2} { // no other rank comes
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, err := Join(ctx, os[alone])
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	number(5, joined(t, os))
}

// A connection that was meant for another meeting at the same address is turned away.
func TestOtherMeeting(t *testing.T) {
	o := options(t, 3)[0]
	_, d, l := knocker(t, o, time.Minute)
	for _, h := range []hello{
		{rank: 1, size: 3, meeting: 1, purpose: joining},
		{rank: 1, size: 3, meeting: 2, purpose: dialing + "x"},
		{rank: 1, size: 3, meeting: 0, purpose: dialing + "x"},
	} {
		h.job = testJob
		conn := dialed(t, d.ln.Addr())
		_, err := knock(t.Context(), conn, o.Secret, &h)
		says(t, []error{err}, "this is meeting 1")
		l.expect(t, conn.LocalAddr().String(), "this is meeting 1")
	}
}
