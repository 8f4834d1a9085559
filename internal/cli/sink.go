package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxLogged is the length of a text in a log line, in bytes.
const maxLogged = sanitize.MaxMessage

// sanitized is a logger whose lines hold text of others as sanitize.Text shows it: what members and repositories answer is
// in errors and messages that libraries log, too.
func sanitized(log logr.Logger) logr.Logger { return logr.New(sink{log.GetSink()}) }

// sink is a logr.LogSink in front of another one.
type sink struct{ logr.LogSink }

// Init implements logr.LogSink.
func (s sink) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	s.LogSink.Init(info)
}

// Info implements logr.LogSink.
func (s sink) Info(level int, msg string, values ...any) {
	s.LogSink.Info(level, logged(msg), sanitizedValues(values)...)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, msg string, values ...any) {
	if err != nil {
		err = errors.New(logged(err.Error()))
	}
	s.LogSink.Error(err, logged(msg), sanitizedValues(values)...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(values ...any) logr.LogSink {
	return sink{s.LogSink.WithValues(sanitizedValues(values)...)}
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.LogSink.WithName(logged(name))} }

// WithCallDepth implements logr.CallDepthLogSink.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return sink{deep.WithCallDepth(depth)}
	}
	return s
}

func logged(text string) string { return sanitize.Text(text, maxLogged) }

func sanitizedValues(values []any) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = sanitizedValue(v)
	}
	return out
}

// sanitizedValue is a value with sanitized text in it. What has a structure keeps it.
func sanitizedValue(v any) (out any) {
	defer func() {
		if r := recover(); r != nil { // as loggers do: a method of a nil pointer is the usual cause
			out = logged(fmt.Sprintf("PANIC: %v", r))
		}
	}()
	switch v := v.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Duration, time.Time:
		return v
	case string:
		return logged(v)
	case []byte:
		return logged(string(v))
	case logr.Marshaler:
		return sanitizedValue(v.MarshalLog())
	case error:
		return logged(v.Error())
	case fmt.Stringer:
		return logged(v.String())
	}
	var decoded any
	encoded, err := json.Marshal(v)
	if err != nil || len(encoded) > 1<<20 || json.Unmarshal(encoded, &decoded) != nil {
		return logged(fmt.Sprintf("%+v", v))
	}
	return sanitizedTree(decoded)
}

// sanitizedTree is what JSON was decoded to, with sanitized text in it.
func sanitizedTree(v any) any {
	switch v := v.(type) {
	case string:
		return logged(v)
	case []any:
		for i := range v {
			v[i] = sanitizedTree(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[logged(key)] = sanitizedTree(value)
		}
		return out
	default:
		return v
	}
}
