package v1alpha1

import (
	"strconv"
	"time"
)

// RequestTime is when a request was made whose token is a time, as those of tools are: RFC 3339, or whole seconds,
// milliseconds, microseconds or nanoseconds since 1970. Any other token is a request as well, of which the time is not known.
func RequestTime(token string) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, token); err == nil {
		return t, true
	}
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, false
	}
	const tooLate = int64(1e11) // in seconds, the year 5138
	switch {
	case n < tooLate:
		return time.Unix(n, 0), true
	case n < tooLate*1e3:
		return time.UnixMilli(n), true
	case n < tooLate*1e6:
		return time.UnixMicro(n), true
	default:
		return time.Unix(0, n), true
	}
}

// RequestedAfter says whether one token is known to be of a later time than another.
func RequestedAfter(token, other string) bool {
	t, ok := RequestTime(token)
	o, known := RequestTime(other)
	return ok && known && t.After(o)
}
