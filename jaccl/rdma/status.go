package rdma

import "fmt"

// statusText describes the status of a completion.
func statusText(status uint32) string {
	names := [...]string{
		"success", "local length error: the message does not fit its buffer", "local queue pair operation error", "local end-to-end context error",
		"local protection error: a buffer is not registered", "flushed: the queue pair is in the error state", "memory window bind error",
		"bad response", "local access error", "remote invalid request: the peer posted another size", "remote access error", "remote operation error",
		"retries exceeded: the peer does not answer", "receiver not ready: the peer posted no buffer", "local RDD violation", "remote invalid RD request",
		"remote aborted", "invalid end-to-end context number", "invalid end-to-end context state", "fatal error", "response timeout", "general error",
	}
	if int(status) < len(names) {
		return fmt.Sprintf("status %d, %s", status, names[status])
	}
	return fmt.Sprintf("status %d", status)
}
