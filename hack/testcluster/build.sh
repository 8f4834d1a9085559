#!/bin/sh
# Builds the test-cluster program: build.sh OUTPUT (an absolute path, or one relative to the caller's
# directory). The first time takes 5 to 8 minutes on two cores, later ones seconds.
#
# The Kubernetes version is stamped from go.mod, because the API server's /version, which kubectl and
# MiniFleet show, comes from the linker and not from the module.
set -eu
out=${1:?usage: build.sh OUTPUT}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
release=${version#v}
major=${release%%.*}
minor=${release#*.}
minor=${minor%%.*}

flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	flags="$flags -X $package.gitCommit=$version -X $package.gitTreeState=clean"
done
flags="$flags -X sigs.k8s.io/kwok/pkg/consts.Version=$(go list -m -f '{{.Version}}' sigs.k8s.io/kwok)"

mkdir -p "$(dirname "$out")"
CGO_ENABLED=0 exec go build -trimpath -ldflags "$flags" -o "$out" .
