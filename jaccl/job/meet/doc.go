// Package meet brings the ranks of a job together: it is where they learn of
// each other and prove to each other that they belong to the job, and it makes
// the connections that transports are set up with.
//
// Rank 0 listens at the coordinator's address. Every rank, which knows that
// address, the job's id and its secret, connects to it and says what it is and
// where it listens itself; when all have come, all know of all. Join is that;
// Over does the same where the ranks can talk already, through MPI for example.
//
// A job meets at one address again and again; see Meetings.
//
// The secret does not travel. Both sides of a connection give a nonce, and each
// shows an HMAC-SHA256 over all that was said, with its own role, under the
// secret. A connection that fails this is turned away, Options.Log is told, and the
// ranks do not wait for it. What follows is not encrypted, nor is the data of
// transports: nobody else must be able to write to the network between the ranks.
//
// A failure is a failure of the whole Place: the ranks are no longer at the same
// point of the same program. Every rank gets an error with the same text, which
// names the ranks at fault and their hosts.
package meet
