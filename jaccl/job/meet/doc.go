// Package meet brings the ranks of a job together. The ranks learn of each other and
// prove to each other that they belong to the job. The package also makes the connections
// for setting up transports; it does not carry their data, and it does not determine the
// ranks of the job (package environ does). Begin with Join and Place.
//
// Rank 0 listens at the coordinator's address. Every other rank knows that address, the
// job's id and its secret. It connects to rank 0, and sends its rank and its own address.
// Once all ranks have connected, each one knows all others. Join does this. Over does the
// same for ranks that can already exchange data, for example through MPI.
//
// A job can meet at the same address several times; see Meetings.
//
// The secret is never sent. Each side of a connection sends a nonce, and then an
// HMAC-SHA256 under the secret over both sides' messages and its own role. A connection
// failing this test is turned away. Options.Log records it, at a limited rate, and the
// ranks do not wait for it. Later messages are not encrypted, nor is the data of
// transports: the network between the ranks must be protected from writes by others. When
// a job is set up, Shut closes the ranks' listeners.
//
// A failure is a failure of the whole Place, because the ranks are no longer at the same
// point of the same program. Every rank gets an error with the same text, naming the
// ranks at fault and their hosts.
//
// join.go has Join and Over, place.go the Gather and Dial of a joined rank, coordinator.go
// both ends of a gather, door.go a rank's listener, handshake.go the proof of the secret,
// roster.go what the ranks know of each other, and machine.go what two ranks share.
package meet
