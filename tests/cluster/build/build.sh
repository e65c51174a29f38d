#!/usr/bin/env bash
# Builds the binaries of the tests' own Kubernetes from their published Go modules.
# Each binary is built once and kept by version in a cache outside the tree; a second run
# takes a second. Prints the folder that holds them as its last line.
#   build.sh [name ...]      names default to all
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${RUNNERQ_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/runnerq/cluster}"
kubernetes="v1.36.3"
bin="$cache/bin-$kubernetes"
mkdir -p "$bin"

export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -mod=readonly -trimpath"

# A client asks the server for its version; without these flags it answers v0.0.0.
version="k8s.io/component-base/version"
stamp="-X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=36 -X $version.gitTreeState=clean"

build() { # name, module folder, package
  local name="$1" folder="$2" package="$3" sum
  # The module's lock decides whether a cached binary is still the right one.
  sum="$(sha256sum "$here/$folder/go.sum" | cut -c1-12)"
  if [[ -x "$bin/$name" && -f "$bin/.$name.$sum" ]]; then
    return
  fi
  local started=$SECONDS
  echo "building $name ($package); the first build takes minutes" >&2
  (cd "$here/$folder" && go build -ldflags "-s -w $stamp" -o "$bin/$name.part" "$package")
  mv "$bin/$name.part" "$bin/$name"
  rm -f "$bin/.$name."*
  : > "$bin/.$name.$sum"
  echo "built $name in $((SECONDS - started)) s" >&2
}

wanted=("$@")
if [[ ${#wanted[@]} -eq 0 ]]; then
  wanted=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy helm coredns)
fi
for name in "${wanted[@]}"; do
  case "$name" in
    etcd) build etcd etcd go.etcd.io/etcd/server/v3 ;;
    helm) build helm helm helm.sh/helm/v3/cmd/helm ;;
    coredns) build coredns coredns github.com/coredns/coredns ;;
    kube-*|kubelet) build "$name" kubernetes "k8s.io/kubernetes/cmd/$name" ;;
    *) echo "build.sh: unknown binary $name" >&2; exit 2 ;;
  esac
done
echo "$bin"
