package identity

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Lead is to be added to a manager: it starts with the lease, and nothing is done on any member before it has read the ConfigMap
// again. This process may have waited for the lease for days, while a backup was restored or another one has raised the epoch: it
// ends then, and leads as what is there now once it is started again.
func (i *Identity) Lead() manager.Runnable {
	i.confirmed = make(chan struct{})
	return manager.RunnableFunc(func(ctx context.Context) error {
		cm, now, err := i.get(ctx)
		if apierrors.IsNotFound(err) { // the next change makes it anew
			close(i.confirmed)
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(refuseHalfRestored(cm, i.key()), refuseOldEpoch(cm, now, i.key())); err != nil {
			return err
		}
		if led := i.Epoch(); now.epoch != led {
			return fmt.Errorf("ConfigMap %s: data.%s was changed from %d to %d while this process waited for the lease: it leads in that once it is started again", i.key(), keyEpoch, led, now.epoch)
		}
		i.learn(now)
		close(i.confirmed)
		return nil
	})
}

// leading returns once Lead has confirmed that this process leads as what it has read.
func (i *Identity) leading(ctx context.Context) error {
	if i.confirmed == nil {
		return nil
	}
	select {
	case <-i.confirmed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
