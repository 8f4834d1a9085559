package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxLimits is for how many addresses or persons a limiter counts; it forgets whoever has been quiet longest.
const maxLimits = 10_000

type limiter struct {
	rate Rate
	now  func() time.Time

	mu     sync.Mutex
	limits *lru.Cache
}

func newLimiter(r Rate, now func() time.Time) *limiter {
	return &limiter{rate: r, now: now, limits: lru.New(maxLimits)}
}

// wait is how long whoever has this key is to wait; zero if they may go on, which then counts.
func (l *limiter) wait(key string) time.Duration {
	now := l.now()
	reservation := l.of(key).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

func (l *limiter) of(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, ok := l.limits.Get(key); ok {
		if limit, is := kept.(*rate.Limiter); is {
			return limit
		}
	}
	limit := rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)
	l.limits.Add(key, limit)
	return limit
}

// address is the network address that a request came from, as far as it can be believed: of IPv6 the /64, which one
// machine has all of. From trusted proxies on it is the last that they have not seen themselves.
func address(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && isIn(addr, trusted); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}

func isIn(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}
