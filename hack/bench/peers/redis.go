package peers

import (
	"context"

	"github.com/alicebob/miniredis/v2"
)

// ServeRedis serves Redis at an address, from memory, until ctx ends. Argo CD keeps there what can be made again. Keys do not
// expire, since a turn is shorter than they last.
func ServeRedis(ctx context.Context, address string) error {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address); err != nil {
		return err
	}
	<-ctx.Done()
	server.Close()
	return nil
}
