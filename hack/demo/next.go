package main

import (
	"os"
	"os/exec"
	"strings"
)

// kubectlName returns how to call kubectl: as such where it is installed, else the one in the
// test-cluster program, for which bin gets a link.
func kubectlName(at layout) string {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return "kubectl"
	}
	if _, err := os.Stat(at.bin("kubectl")); err != nil {
		_ = os.Symlink("testcluster", at.bin("kubectl")) // without it the advice does not work, and all else does
	}
	return "bin/kubectl"
}

// nextSteps says what to try with a running demo.
func nextSteps(kubectl string) string {
	return strings.ReplaceAll(`What to try next, from the root of the repository:

  # What runs where, the members and the source; one MiniCluster's runs, and its events
  export KUBECONFIG=$PWD/.demo/hub.kubeconfig
  KUBECTL get fmc,mcl,gs -o wide
  KUBECTL describe fmc lammps-reaxff

  # Change a MiniCluster: edit .demo/fleet/lammps-reaxff.yaml, then
  git -C .demo/fleet commit -am "Simulate a larger box" && git -C .demo/fleet push
  KUBECTL get fmc -w

  # Run the elastic one again, and give it more pods while it runs
  KUBECTL annotate fmc elastic-ensemble minifleet.dev/rerun-at=1 --overwrite
  KUBECTL scale fmc elastic-ensemble --replicas=5

  # Stop the API server of a member, watch, and start it again
  kill $(cat .demo/pids/basalt-apiserver)
  KUBECTL get mcl,fmc -w
  go run ./hack/demo start basalt-apiserver

  # End the controller: it comes back within seconds, as a Deployment's pod would, and repeats nothing
  kill $(cat .demo/pids/controller)

  # Delete from Git: the MiniCluster is removed from the hub and from its members
  git -C .demo/fleet rm hpcg.yaml && git -C .demo/fleet commit -m "Drop HPCG" && git -C .demo/fleet push

  # Inspect a member, with .demo/members/NAME.kubeconfig; the logs of all processes are in .demo/logs
  KUBECTL --kubeconfig .demo/members/alpine.kubeconfig get jobs,pods

  # Stop everything and remove .demo
  make demo-down`, "KUBECTL", kubectl)
}
