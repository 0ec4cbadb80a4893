// Package meet brings the ranks of a job together: it is where they learn of
// each other and prove to each other that they belong to the job, and it makes
// the connections that transports are set up with.
//
// Rank 0 listens at the coordinator's address. Every other rank knows that address, the job's
// id and its secret. It connects to rank 0, and says which rank it is and where it listens
// itself. When all ranks have come, each one knows all others. Join does this. Over does the
// same where the ranks can talk to each other already, for example through MPI.
//
// A job meets at one address again and again; see Meetings.
//
// The secret does not travel. Both sides of a connection give a nonce, and each
// shows an HMAC-SHA256 over all that was said, with its own role, under the
// secret. A connection that fails this is turned away, Options.Log is told, at a limited rate,
// and the ranks do not wait for it. What follows is not encrypted, nor is the data of
// transports: nobody else must be able to write to the network between the ranks. When a job
// is set up, Shut closes the ranks' listeners.
//
// A failure is a failure of the whole Place: the ranks are no longer at the same
// point of the same program. Every rank gets an error with the same text, which
// names the ranks at fault and their hosts.
package meet
