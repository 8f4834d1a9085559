package live

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogLine is a line of a log, or what there is to say of lines. One of Text, Lost and End is set.
type LogLine struct {
	// Time is what the member says, zero where it says none.
	Time time.Time
	Text *string
	// Lost is how many lines, at least, cannot be had any more.
	Lost int64
	// End is why there are no more.
	End string
}

// Sink is who is told. Flush is called when it may take long until there is more.
type Sink interface {
	Tell(line LogLine) error
	Flush() error
}

// Values of LogLine.End.
const (
	EndEnded        = "ended"
	EndDisconnected = "disconnected"
	EndForbidden    = "forbidden"
	EndLimit        = "limit"
)

const (
	// maxSent is how many bytes of text are told of one log.
	maxSent = 64 << 20
	// maxHeld is how many bytes are held of lines that may turn out to be more than were asked for.
	maxHeld = 8 << 20
	// patience is for how long a log is followed without an answer of its member.
	patience = 10 * time.Second
	// firstRetry and lastRetry are the waits between two attempts, the second twice as long as the first and so on.
	firstRetry, lastRetry = 250 * time.Millisecond, 4 * time.Second
)

// errEnd ends a log early: the text is what LogLine.End tells.
type errEnd string

func (e errEnd) Error() string { return string(e) }

// Each tells all lines, and, of a log that is followed, how it has ended. It returns the error of the sink, or that of ctx.
func (l *Log) Each(ctx context.Context, to Sink) error {
	defer l.cancel()
	stop := context.AfterFunc(ctx, l.cancel)
	defer stop()
	err := l.tell(ctx, to)
	var end errEnd
	switch {
	case errors.As(err, &end):
		return to.Tell(LogLine{End: string(end)})
	case err != nil:
		return err
	case l.request.Follow:
		return to.Tell(LogLine{End: EndEnded})
	default:
		return nil
	}
}

func (l *Log) tell(ctx context.Context, to Sink) error {
	stream, err := l.takeFirst(ctx)
	if err != nil {
		return err
	}
	if !l.request.Since.IsZero() {
		l.last, l.same = l.request.Since.UTC(), int(^uint(0)>>1) // all of that time were told
		if err := l.catchUp(ctx, stream, to); err != nil || !l.request.Follow {
			return err
		}
		return l.follow(ctx, nil, to)
	}
	if l.request.Follow && !l.request.Previous {
		return l.follow(ctx, stream, to)
	}
	if _, err := l.copyLines(stream, false, to); err != nil {
		return disconnected(ctx, err)
	}
	return nil
}

// takeFirst waits for the answer to the first request.
func (l *Log) takeFirst(ctx context.Context) (io.ReadCloser, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case first := <-l.first:
		if first.err != nil {
			return nil, disconnected(ctx, first.err)
		}
		return first.stream, nil
	case <-timer.C:
		return nil, errEnd(EndDisconnected)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// disconnected says what has become of a log that ends with an error: nobody wants it any more, or its member is lost.
func disconnected(ctx context.Context, err error) error {
	var end errEnd
	var failed *sinkError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &end), errors.As(err, &failed):
		return err
	default:
		return errEnd(EndDisconnected)
	}
}

// sinkError is that of the one who is told.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// line tells a line.
func (l *Log) line(s stamped, to Sink) error {
	if l.sent += int64(len(s.text)) + 1; l.sent > maxSent {
		return errEnd(EndLimit)
	}
	switch {
	case s.at.IsZero():
	case s.at.Equal(l.last):
		l.same++
	default:
		l.last, l.same, l.anchored = s.at, 1, true
	}
	if err := to.Tell(LogLine{Time: s.at, Text: &s.text}); err != nil {
		return &sinkError{err}
	}
	return nil
}

func (l *Log) lost(n int64, to Sink) error {
	if n == 0 {
		return nil
	}
	if err := to.Tell(LogLine{Lost: n}); err != nil {
		return &sinkError{err}
	}
	return nil
}

// skipper omits what was told before, and notes whether it was seen again: where it was not, lines may be missing.
type skipper struct {
	last time.Time
	same int
	seen int
	// reaches says that the log reaches back to what was told.
	reaches bool
}

func (s *skipper) told(line stamped) bool {
	switch {
	case line.at.IsZero() || line.at.After(s.last):
		return false
	case line.at.Equal(s.last):
		s.reaches = true
		s.seen++
		return s.seen <= s.same
	default:
		s.reaches = true
		return true
	}
}

// catchUp tells what has come since the last line, no more than was asked for from the end, and how much is missing.
func (l *Log) catchUp(ctx context.Context, stream io.ReadCloser, to Sink) error {
	defer func() { _ = stream.Close() }() // it was only read
	in, skip := bufio.NewReaderSize(stream, maxLine), skipper{last: l.last, same: l.same}
	var held []stamped
	var lost, size int64
	for {
		s, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return disconnected(ctx, err)
		}
		if skip.told(s) {
			continue
		}
		held = append(held, s)
		size += int64(len(s.text))
		for l.request.Tail > 0 && int64(len(held)) > l.request.Tail || size > maxHeld {
			size -= int64(len(held[0].text))
			held, lost = held[1:], lost+1
		}
	}
	l.anchored = skip.reaches
	if !l.anchored {
		lost++
	}
	if err := l.lost(lost, to); err != nil {
		return err
	}
	for _, s := range held {
		if err := l.line(s, to); err != nil {
			return err
		}
	}
	return nil
}

// copyLines tells what comes. With again set, what was told before is left out, and it is told if lines are missing in
// between. It says whether anything new came. A log that is at its end gives no error.
func (l *Log) copyLines(stream io.ReadCloser, again bool, to Sink) (news bool, err error) {
	defer func() { _ = stream.Close() }() // it was only read
	in, skip := bufio.NewReaderSize(stream, maxLine), skipper{last: l.last, same: l.same}
	for {
		if in.Buffered() == 0 {
			if err := to.Flush(); err != nil {
				return news, &sinkError{err}
			}
		}
		s, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			return news, nil
		}
		if err != nil {
			return news, err
		}
		if again && skip.told(s) {
			continue
		}
		if again && !news && !skip.reaches && l.anchored {
			if err := l.lost(1, to); err != nil {
				return news, err
			}
		}
		news = true
		if err := l.line(s, to); err != nil {
			return news, err
		}
	}
}

// follow tells what comes until the container ends, over connections that are lost.
func (l *Log) follow(ctx context.Context, stream io.ReadCloser, to Sink) error {
	heard, wait, again, broken := l.reader.Now(), firstRetry, stream == nil, false
	for {
		if stream != nil {
			var err error
			if broken, err = l.copyOpen(ctx, stream, again, &wait, to); err != nil {
				return err
			}
			again = true
		}
		next, ended, err := l.reopen(ctx)
		switch {
		case err == nil && ended:
			return l.rest(ctx, next, broken, to)
		case err == nil:
			heard = l.reader.Now()
		case l.reader.Now().Sub(heard) >= patience:
			return errEnd(EndDisconnected)
		}
		if stream = next; stream == nil {
			if err := pause(ctx, &wait); err != nil {
				return err
			}
		}
	}
}

// copyOpen tells what comes until the connection ends, and says whether it broke. After one without news it waits.
func (l *Log) copyOpen(ctx context.Context, stream io.ReadCloser, again bool, wait *time.Duration, to Sink) (broken bool, err error) {
	news, err := l.copyLines(stream, again, to)
	switch broken = err != nil; {
	case broken && !isLost(disconnected(ctx, err)):
		return true, disconnected(ctx, err)
	case news:
		*wait = firstRetry
		return broken, nil
	default:
		return broken, pause(ctx, wait)
	}
}

func isLost(err error) bool {
	var end errEnd
	return errors.As(err, &end) && end == EndDisconnected
}

// rest tells what a container that has ended had still to say. Where that cannot be had, and the connection was broken,
// nobody knows what came after.
func (l *Log) rest(ctx context.Context, stream io.ReadCloser, broken bool, to Sink) error {
	switch {
	case stream == nil && broken:
		return l.lost(1, to)
	case stream == nil:
		return nil
	}
	if _, err := l.copyLines(stream, true, to); err != nil {
		return disconnected(ctx, err)
	}
	return nil
}

// reopen asks the member for what comes next. Of a container that has ended it is what is left, nil where nothing can be
// had.
func (l *Log) reopen(ctx context.Context) (stream io.ReadCloser, ended bool, err error) {
	m, err := l.reader.Members.Member(l.member)
	if err != nil {
		return nil, false, err
	}
	ended, restarted, err := l.hasEnded(ctx, m)
	if err != nil {
		return nil, false, err
	}
	o := l.options(!ended)
	o.Previous = o.Previous || restarted
	stream, err = m.PodLog(ctx, l.pod, o)
	if err != nil && ended && !errors.Is(err, context.Canceled) {
		return nil, true, nil
	}
	return stream, ended, err
}

// hasEnded says whether the container that is followed has ended, and whether another one has taken its place.
func (l *Log) hasEnded(ctx context.Context, m Member) (ended, restarted bool, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	var pod corev1.Pod
	if err := m.GetLive(ctx, l.pod, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			return true, false, nil
		}
		return false, false, err
	}
	for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if s.Name == l.container {
			restarted = s.RestartCount > l.restarts
			return restarted || s.State.Terminated != nil, restarted, nil
		}
	}
	return false, false, nil
}

// pause waits between two attempts, longer each time.
func pause(ctx context.Context, wait *time.Duration) error {
	timer := time.NewTimer(*wait)
	defer timer.Stop()
	*wait = min(2**wait, lastRetry)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func sinceTime(t time.Time) *metav1.Time {
	s := metav1.NewTime(t.Truncate(time.Second))
	return &s
}
