package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Network says which Git servers may be asked. Its zero value lets all of them be.
type Network struct {
	// URLPrefixes are what a URL has to begin with, for example https://git.example.org/team; with none, any will do. A
	// prefix ends at a / of the URL, or with it.
	URLPrefixes []*url.URL
	// Refused are ranges of addresses that no connection is made to, except to those in Allowed. The address is checked
	// when it is dialled, whatever name led to it.
	Refused, Allowed []netip.Prefix
}

// DefaultRefused are ranges in which no Git server is that others may name: the machine itself, its links (where clouds
// have their metadata services), and what is no address of a server.
func DefaultRefused() []string {
	return []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"::/128", "::1/128", "fe80::/10", "ff00::/8",
		"100.100.100.200/32", "fd00:ec2::254/128", // metadata services that are not on the link
	}
}

// prefixSchemes are what a prefix may begin with; socks5 is for proxies alone.
var prefixSchemes = []string{"https", "http", schemeSSH, schemeSOCKS}

// ParseURLPrefixes reads URLPrefixes. One for SSH may name a user, whom URLs have to name then.
func ParseURLPrefixes(texts []string) ([]*url.URL, error) {
	var out []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil || !slices.Contains(prefixSchemes, u.Scheme) || u.Hostname() == "" || hasPassword(u) || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q is not the beginning of a URL such as https://git.example.org/team or ssh://git.example.org/team", text)
		}
		out = append(out, u)
	}
	return out, nil
}

// ParsePrefixes reads ranges of addresses in CIDR notation; an address alone is a range of one.
func ParsePrefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); err != nil && addrErr == nil {
			p, err = netip.PrefixFrom(addr.WithZone(""), addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses such as 10.0.0.0/8", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// checkURL says whether a URL begins as it has to.
func (n *Network) checkURL(u *url.URL) *Error {
	if len(n.URLPrefixes) == 0 || slices.ContainsFunc(n.URLPrefixes, func(prefix *url.URL) bool { return beginsWith(u, prefix) }) {
		return nil
	}
	return fail(ReasonURLRefused, "this hub reads repositories from certain URLs only, and this is none of them; "+
		"move the repository, or have an administrator of the hub add where it is to --git-allowed-url-prefixes")
}

// checkProxy says whether a proxy that a source names is at a place where connections may be made to. A proxy could be any
// server, so that it has to begin as a URL has to.
func (n *Network) checkProxy(auth *Auth) *Error {
	if auth.proxy() == nil || len(n.URLPrefixes) == 0 {
		return nil
	}
	u, failure := auth.Proxy.url()
	if failure != nil {
		return failure
	}
	if n.checkURL(u) != nil {
		return fail(ReasonURLRefused, "this hub connects to certain URLs only, and the proxy that spec.proxySecretRef names is none of them; "+
			"remove it, or have an administrator of the hub add its URL to --git-allowed-url-prefixes")
	}
	return nil
}

func beginsWith(u, prefix *url.URL) bool {
	if u.Scheme != prefix.Scheme || !strings.EqualFold(u.Hostname(), prefix.Hostname()) || port(u) != port(prefix) {
		return false
	}
	if prefix.User != nil && prefix.User.Username() != userOf(u) {
		return false
	}
	below := strings.TrimSuffix(prefix.Path, "/")
	if below == "" {
		return true
	}
	// A server may make less of a path than stands there.
	if clean := path.Clean(u.Path); clean != strings.TrimSuffix(u.Path, "/") || strings.Contains(u.Path, `\`) {
		return false
	}
	return u.Path == below || strings.HasPrefix(u.Path, below+"/")
}

// userOf is who one is at an SSH server.
func userOf(u *url.URL) string {
	if u.User == nil {
		return sshUser
	}
	return u.User.Username()
}

// control is called before each connection is made, with the address that it will be made to.
func (n *Network) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if failure := n.checkAddr(to.Addr()); failure != nil {
		return failure
	}
	return nil
}

// checkHost checks what a name stands for here, as far as it is known here.
func (n *Network) checkHost(ctx context.Context, host string) *Error {
	if len(n.Refused) == 0 {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return n.checkAddr(addr)
	}
	addrs, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // what is not known here may be known to the proxy
	for _, addr := range addrs {
		if failure := n.checkAddr(addr); failure != nil {
			return failure
		}
	}
	return nil
}

// checkAddr says whether a connection may be made to an address. It names the range that refuses it and not the address,
// which a name of the hub's own network may stand for.
func (n *Network) checkAddr(addr netip.Addr) *Error {
	if in, refused := n.Refuses(addr); refused {
		return fail(ReasonURLRefused, "the host of the URL is at an address in "+in.String()+
			", to which this hub does not connect; use a repository elsewhere, or have an administrator of the hub add its range to --git-allowed-cidrs")
	}
	return nil
}

// Refuses says whether no connection may be made to an address, and which range of Refused it is in, or leads to.
func (n *Network) Refuses(addr netip.Addr) (netip.Prefix, bool) {
	for _, a := range meant(addr) {
		contains := func(p netip.Prefix) bool { return p.Contains(a) }
		if slices.ContainsFunc(n.Allowed, contains) {
			continue
		}
		if i := slices.IndexFunc(n.Refused, contains); i >= 0 {
			return n.Refused[i], true
		}
	}
	return netip.Prefix{}, false
}

// Forms of IPv6 addresses that lead to an IPv4 address, by where that begins in them.
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"):   12, // NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"): 12, // NAT64 of the network's own, in its usual form
	netip.MustParsePrefix("::/96"):          12, // IPv4-compatible
	netip.MustParsePrefix("2002::/16"):      2,  // 6to4
}

// meant are the addresses that a connection to one leads to: itself, and the IPv4 address that is within it.
func meant(addr netip.Addr) []netip.Addr {
	addr = addr.WithZone("").Unmap()
	out := []netip.Addr{addr}
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return out
	}
	bytes := addr.As16()
	for prefix, at := range embedding {
		if prefix.Contains(addr) {
			out = append(out, netip.AddrFrom4([4]byte(bytes[at:at+4])))
		}
	}
	return out
}
