package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/minifleet/minifleet/dashboard/live"
)

// How many logs one person, and all together, may read at once.
const (
	maxLogsOfPerson = 8
	maxLogs         = 200
)

// logsRight is the resource that who reads logs may get.
const logsRight = "fleetminiclusters/logs"

func (s *Server) registerLogs(api huma.API) {
	logs := get(logsOperation, miniClusterAt+"/logs", "miniclusters", "Log of a pod, for who may get fleetminiclusters/logs")
	logs.Description = "A log that is followed ends with a line that says why. After a connection was lost, since with the time of the last line goes on after it: no line is told twice, and lost says how many cannot be had any more. 409 says what the pod waits for, where it has no log yet."
	logs.Errors = append(logs.Errors, http.StatusConflict, http.StatusUnprocessableEntity)
	logs.Responses = map[string]*huma.Response{"200": {
		Description: "Lines of JSON, one LogLine each.",
		Content:     map[string]*huma.MediaType{"application/x-ndjson": {Schema: api.OpenAPI().Components.Schemas.Schema(typeOf[LogLine](), true, "LogLine")}},
	}}
	huma.Register(api, logs, s.readLogs)
}

// readLogs answers with the lines of a log. To read logs is a right of its own; without it, there is nothing here.
func (s *Server) readLogs(ctx context.Context, in *logsRequest) (*huma.StreamResponse, error) {
	r, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := s.entry(r, in.MiniClusterPath)
	if err != nil {
		return nil, err
	}
	switch may, err := r.access.May(ctx, "get", logsRight, in.Namespace, in.Name); {
	case err != nil:
		return nil, errRights
	case !may:
		return nil, notFound()
	}
	who, err := s.o.Person(ctx)
	if err != nil {
		return nil, errRights
	}
	query := live.LogRequest{
		Object: e.Object, Member: in.Member, Run: in.Run, Rank: in.Rank, Container: in.Container, Previous: in.Previous, Follow: in.Follow, Tail: in.Tail,
	}
	if in.Since != "" {
		if query.Since, err = time.Parse(time.RFC3339Nano, in.Since); err != nil {
			return nil, huma.Error422UnprocessableEntity("since is no time of RFC 3339")
		}
	}
	release, err := s.logs.admit(who.Name)
	if err != nil {
		return nil, err
	}
	log, err := s.live.OpenLog(ctx, query)
	if err != nil {
		release()
		return nil, answerOf(err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer release()
		_, w := humago.Unwrap(hc)
		l := &logWriter{Server: s, reader: r, at: in.MiniClusterPath, w: w, control: http.NewResponseController(w)}
		l.serve(hc.Context(), log)
	}}, nil
}

// answerOf is the answer where there is no log.
func answerOf(err error) error {
	var p *live.Problem
	if errors.As(err, &p) {
		return huma.NewError(p.Status, p.Message)
	}
	return unavailable("the log could not be read; try again")
}

// logWriter sends a log to one client.
type logWriter struct {
	*Server
	reader  *reader
	at      MiniClusterPath
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  *bufio.Writer
}

// errForbidden ends a log whose reader may not read it any more, errStopped one of a server that ends.
var (
	errForbidden = errors.New("the right to read the log was lost")
	errStopped   = errors.New("the server ends")
)

func (l *logWriter) serve(ctx context.Context, log *live.Log) {
	h := l.w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	lift(l.control)
	l.buffer = bufio.NewWriterSize(l.w, 32<<10)
	l.w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go l.guard(ctx, cancel)
	err := log.Each(ctx, l)
	switch cause := context.Cause(ctx); {
	case err == nil:
	case errors.Is(cause, errForbidden):
		_ = l.Tell(live.LogLine{End: live.EndForbidden}) // who does not read needs no reason
	case errors.Is(cause, errStopped):
		_ = l.Tell(live.LogLine{End: live.EndDisconnected})
	}
	_ = l.Flush()
}

// guard ends a log when the person may not read it any more. That this could not be found out is borne once.
func (l *logWriter) guard(ctx context.Context, end context.CancelCauseFunc) {
	recheck := time.NewTicker(l.o.Stream.Recheck)
	defer recheck.Stop()
	doubtful := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.logs.stopped:
			end(errStopped)
			return
		case <-recheck.C:
		}
		may, err := l.mayRead(ctx)
		if err == nil && !may || err != nil && doubtful {
			end(errForbidden)
			return
		}
		doubtful = err != nil
	}
}

func (l *logWriter) mayRead(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	if err := l.reader.access.Recheck(ctx); err != nil {
		if errors.Is(err, ErrUnavailable) {
			return false, err
		}
		return false, nil
	}
	return l.reader.access.May(ctx, "get", logsRight, l.at.Namespace, l.at.Name)
}

// Tell implements live.Sink.
func (l *logWriter) Tell(line live.LogLine) error {
	out := LogLine{Text: line.Text, Lost: line.Lost, End: line.End}
	if !line.Time.IsZero() {
		out.Time = &line.Time
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if len(raw) <= l.buffer.Available() {
		_, err = l.buffer.Write(raw)
		return err
	}
	defer l.allow()()
	_, err = l.buffer.Write(raw)
	return err
}

// Flush implements live.Sink.
func (l *logWriter) Flush() error {
	defer l.allow()()
	if err := l.buffer.Flush(); err != nil {
		return err
	}
	if err := l.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// allow gives the client its time to read what is sent next, until the function that it returns is called: over HTTP/2 a
// deadline ends the stream although nothing waits to be sent. Not every writer has one.
func (l *logWriter) allow() (sent func()) {
	_ = l.control.SetWriteDeadline(l.o.Now().Add(l.o.Stream.WriteTimeout))
	return func() { _ = l.control.SetWriteDeadline(time.Time{}) }
}
