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

// hosts are the names by which clients may reach the server: IP addresses, localhost and names below it, the machine's names, and
// others that are given. A page of another site can have a browser send requests to a name of its own that leads to this machine's
// address, which the browser takes for the page's own site. So a request for any other name is refused, and one that a page of
// another name sends.
type hosts struct {
	machine, given map[string]bool
}

// newHosts returns the hosts with the names that are given. It is an error if one is no name, or has a port.
func newHosts(given []string) (*hosts, error) {
	h := &hosts{machine: map[string]bool{}, given: map[string]bool{}}
	if name, err := os.Hostname(); err == nil && name != "" { // without a name there is none to allow
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

// CheckHosts returns an error if one of Config.Hosts is no name of a host.
func CheckHosts(names []string) error {
	_, err := newHosts(names)
	return err
}

// plainHost returns the name of a host in one form: lower case, without brackets and without the point at its end.
func plainHost(name string) string {
	if inner, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// nameOf returns the name of a host with or without a port.
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

// guarded refuses requests for other hosts, and those of pages of other sites.
func (h *hosts) guarded(next http.Handler) http.Handler {
	checked := http.NewCrossOriginProtection()
	checked.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &problem{Status: http.StatusForbidden, Message: "the request is from a page of another site"})
	}))
	protected := checked.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// Programs from before HTTP/1.1 name no host. Browsers always do.
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
		case err == nil && h.given[nameOf(u.Host)]: // a proxy may have put another host in the place of the page's
			next.ServeHTTP(w, r)
		case err == nil && u.Host != "" && !h.has(nameOf(u.Host)):
			refuse(w, &problem{Status: http.StatusForbidden, Message: "the request is from a page of another site, " + quoted.Text(u.Host) + "; gomoe serve -host allows one"})
		default:
			protected.ServeHTTP(w, r)
		}
	})
}
