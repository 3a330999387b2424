#!/usr/bin/env bash
# Builds the Kubernetes programs of one version from the Go module proxy into a folder that is kept:
#   e2e/kubernetes-build.sh 1.36.3 .cache/kubernetes/1.36.3
# Does nothing where they are there already.
set -euo pipefail
version=${1:?version, such as 1.36.3}
target=${2:?folder to build into}
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl)

complete() { for p in "${programs[@]}"; do [[ -x $target/$p ]] || return 1; done; }
complete && exit 0
command -v go >/dev/null || { echo "no go on PATH: it builds Kubernetes $version" >&2; exit 1; }

echo "building Kubernetes $version (4 to 15 minutes, kept in $target)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
{
  printf 'module kubernetes-build\n\n'
  grep -E '^go ' "$mod"
  printf '\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
  # The staging modules are replaced by folders there; their releases are v0.<minor>.<patch>.
  sed -nE "s#^[[:space:]]*(k8s\.io/[^ ]+) => \./staging.*#\t\1 => \1 v0.${version#*.}#p" "$mod"
  printf ')\n'
} >go.mod
stamp=k8s.io/component-base/version
minor=${version#*.}
CGO_ENABLED=0 go build -mod=mod -trimpath -o "$work/bin/" \
  -ldflags "-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=${version%%.*} -X $stamp.gitMinor=${minor%%.*}" \
  "${programs[@]/#/k8s.io/kubernetes/cmd/}"
cd - >/dev/null
mkdir -p "$target"
mv "$work"/bin/* "$target/"
complete
