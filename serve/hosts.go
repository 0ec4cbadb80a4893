package serve

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// hosts lists the names by which clients may reach the server: IP addresses, localhost and its subdomains, the
// machine's names, and configured ones. It protects against DNS rebinding: a page of another site can make a
// browser send requests to its own host name resolving to this machine's address, which the browser considers the
// same site. So requests for other names are refused, as are requests sent by pages of other names.
type hosts struct {
	machine, given map[string]bool
}

// newHosts returns the hosts including the given names. It is an error if one is invalid or has a port.
func newHosts(given []string) (*hosts, error) {
	h := &hosts{machine: map[string]bool{}, given: map[string]bool{}}
	if name, err := os.Hostname(); err == nil && name != "" { // without a name there is nothing to allow
		name = plainHost(name)
		short, _, _ := strings.Cut(name, ".")
		for _, n := range []string{name, short, short + ".local"} {
			h.machine[n] = true
		}
	}
	for _, name := range given {
		u, err := url.Parse("//" + name)
		if err != nil || name == "" || u.Host != name || u.Port() != "" || strings.ContainsAny(name, ":*") && !isAddress(name) {
			return nil, errors.New("host " + quoted.Text(name) + ": want the name of a host without a port, such as llm.example.org")
		}
		h.given[plainHost(name)] = true
	}
	return h, nil
}

// CheckHosts returns an error if a name is invalid for Config.Hosts.
func CheckHosts(names []string) error {
	_, err := newHosts(names)
	return err
}

// plainHost normalises a host name: lower case, without brackets and without a trailing dot.
func plainHost(name string) string {
	if inner, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// nameOf returns the name of a host, without its port.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return plainHost(name)
	}
	return plainHost(host)
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// has reports whether a name is one of the hosts.
func (h *hosts) has(name string) bool {
	return h.machine[name] || h.given[name] || name == "localhost" || strings.HasSuffix(name, ".localhost") || isAddress(name)
}

// guarded refuses requests for other hosts, and requests sent by pages of other sites.
func (h *hosts) guarded(next http.Handler) http.Handler {
	checked := http.NewCrossOriginProtection()
	checked.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &problem{Status: http.StatusForbidden, Message: "the request is from a page of another site"})
	}))
	protected := checked.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// Clients older than HTTP/1.1 name no host. Browsers always do.
		if name := nameOf(r.Host); r.Host != "" && !h.has(name) {
			refuse(w, &problem{Status: http.StatusForbidden, Message: "the request is for host " + quoted.Text(name) +
				", want an IP address, localhost, this machine's name, or one that gomoe serve -host allows"})
			return
		}
		origin := r.Header.Get("Origin")
		if origin == "" {
			protected.ServeHTTP(w, r)
			return
		}
		u, err := url.Parse(origin)
		switch {
		case err == nil && h.given[nameOf(u.Host)]: // a proxy may have replaced the page's host
			next.ServeHTTP(w, r)
		case err == nil && u.Host != "" && !h.has(nameOf(u.Host)):
			refuse(w, &problem{Status: http.StatusForbidden, Message: "the request is from a page of another site, " + quoted.Text(u.Host) + "; gomoe serve -host allows one"})
		default:
			protected.ServeHTTP(w, r)
		}
	})
}
