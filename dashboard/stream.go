package dashboard

import "time"

// StreamOptions are intervals and limits of streams.
type StreamOptions struct {
	// Batch is the shortest time between two changes that are sent, Ping that between two signs of life, Recheck that
	// after which it is asked again what the person may see.
	Batch, Ping, Recheck time.Duration
	// WriteTimeout is how long a client may take to read.
	WriteTimeout time.Duration
	// PerPerson and Total are how many streams there may be.
	PerPerson, Total int
}

func (o *StreamOptions) setDefaults() {}

type streams struct{}

func newStreams(StreamOptions) *streams { return &streams{} }

func (s *streams) stop() {}
