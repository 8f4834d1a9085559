package lab_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/minifleet/minifleet/hack/lab"
)

func TestOtherClustersStandIn(t *testing.T) {
	member := shared.Cluster("member")
	t.Setenv(lab.StandInEnv, member.KubeconfigPath())
	other, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Clusters: []lab.ClusterSpec{{Name: "given"}}})
	if err != nil {
		t.Fatal(err)
	}
	given := other.Cluster("given")
	if given.Owned() || given.Address() != member.Address() || !bytes.Equal(given.Kubeconfig(), member.Kubeconfig()) {
		t.Errorf("owned %v, address %s", given.Owned(), given.Address())
	}
	if err := given.StopAPIServer(); !errors.Is(err, lab.ErrNotOwned) {
		t.Errorf("stopping it: %v, want %v", err, lab.ErrNotOwned)
	}
	if err := other.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := clientFor(t, given).ServerVersion(); err != nil {
		t.Errorf("it was stopped with the lab: %v", err)
	}
	if _, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Clusters: []lab.ClusterSpec{{Name: "a"}, {Name: "b"}}}); err == nil {
		t.Error("one kubeconfig for two clusters is no error")
	}
}
