#!/usr/bin/env bash
# Makes the images of the programs, with whatever engine is there:
#   deploy/images.sh [--component=NAME] [--registry=PREFIX] [--version=TAG] [--cli=CLI] [--out=FOLDER]
#
#   --component  device-plugin, scheduler, exporter, controller (with its job agent) or job-agent; all by default
#   --registry   goes before the names, such as registry.example.com/team; none by default
#   --version    the tag; by default $lj_runtimekit_version, else the workspace's version
#   --cli        docker, podman, nerdctl, buildah, ctr or archive; by default the first whose engine answers, else archive
#   --out        where archives go (ctr, archive); by default target/images
#
# The programs are static, and the same sources give the same bytes. PROFILE= is cargo's (release). PROGRAMS=FOLDER takes
# them from there and builds none.
set -euo pipefail
cd "$(dirname "$0")/.."

components=(device-plugin scheduler exporter controller job-agent)
engines=(docker podman nerdctl buildah ctr archive)
usage() { sed -n '2,12s/^# \{0,1\}//p' deploy/images.sh; }
wrong() { echo "images.sh: $*" >&2; exit 64; }
one_of() { # what, value, allowed …
  local what=$1 value=$2 allowed
  shift 2
  for allowed in "$@"; do [[ $value == "$allowed" ]] && return; done
  wrong "$what $value: it is one of $*"
}

image_of() { case $1 in job-agent) echo lj-runtimekit-controller-job-agent ;; *) echo "lj-runtimekit-$1" ;; esac; }
title_of() {
  case $1 in
    device-plugin) echo 'Kubernetes device plugin of the accelerator Runtime Kit' ;;
    scheduler) echo 'Scheduler extender of the accelerator Runtime Kit' ;;
    exporter) echo 'Prometheus exporter of the accelerator Runtime Kit' ;;
    controller) echo 'Node label controller of the accelerator Runtime Kit' ;;
    job-agent) echo 'Job agent of the accelerator Runtime Kit' ;;
  esac
}
user_of() { sed -n "/^FROM scratch AS $1\$/,/^ENTRYPOINT/s/^USER //p" Dockerfile; }

workspace_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml; }

component='' registry='' version=${lj_runtimekit_version:-$(workspace_version)} cli='' out=''
for argument in "$@"; do
  case $argument in
    --component=*) component=${argument#*=} ;;
    --registry=*) registry=${argument#*=} ;;
    --version=*) version=${argument#*=} ;;
    --cli=*) cli=${argument#*=} ;;
    --out=*) out=${argument#*=} ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "unknown argument $argument (see --help)" ;;
  esac
done
target=${CARGO_TARGET_DIR:-target}
out=${out:-$target/images}
registry=${registry%/}
[[ $version =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] || wrong "version $version: a tag has letters, digits, _ . -, at most 128"
[[ -z $registry || $registry =~ ^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$ ]] ||
  wrong "registry $registry: it is a host, with a port and a path where they are needed"
case $component in
  '') chosen=("${components[@]}") ;;
  controller) chosen=(controller job-agent) ;;
  controller-job-agent) chosen=(job-agent) ;;
  *) one_of 'component' "$component" "${components[@]}" && chosen=("$component") ;;
esac

# A client without its engine is no use.
answers() {
  case $1 in
    archive) return 0 ;;
    buildah) buildah --storage-driver vfs info >/dev/null 2>&1 ;;
    ctr) ctr version >/dev/null 2>&1 ;;
    *) "$1" info >/dev/null 2>&1 ;;
  esac
}
if [[ -z $cli ]]; then
  for cli in "${engines[@]}"; do answers "$cli" && break; done
else
  one_of 'cli' "$cli" "${engines[@]}"
  answers "$cli" || { echo "images.sh: $cli does not answer; start it, or use --cli=archive" >&2; exit 1; }
fi

triple=$(uname -m)-unknown-linux-musl
build() {
  if [[ -n ${PROGRAMS:-} ]]; then return 0; fi
  local profile=${PROFILE:-release}
  PROGRAMS=$target/$triple/$profile
  if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$triple"; then
    rustup target add "$triple"
  fi
  local packages=() component
  for component in "${chosen[@]}"; do packages+=(--package "$component"); done
  # Nothing of it is linked with a C library of another kind, so that the system's own compiler does.
  local name=CC_${triple//-/_}
  export "$name=${!name:-cc}"
  # No path of this machine in a program: the same sources are the same bytes everywhere.
  export RUSTFLAGS="--remap-path-prefix=$PWD=/src --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo${RUSTFLAGS:+ $RUSTFLAGS}"
  cargo build --profile "$profile" --locked --target "$triple" "${packages[@]}"
}

reference() { echo "${registry:+$registry/}$(image_of "$1"):$version"; }
# What containerd calls it, and kubelet looks for.
qualified() {
  local name=$1
  case $name in
    *.*/* | *:*/* | localhost/*) echo "$name" ;;
    */*) echo "docker.io/$name" ;;
    *) echo "docker.io/library/$name" ;;
  esac
}

labels_of() { # component: one a line
  local revision
  revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  printf 'org.opencontainers.image.title=%s\n' "$(image_of "$1")"
  printf 'org.opencontainers.image.description=%s\n' "$(title_of "$1")"
  printf 'org.opencontainers.image.version=%s\n' "$version"
  printf 'org.opencontainers.image.revision=%s\n' "$revision"
  printf 'org.opencontainers.image.licenses=Apache-2.0\n'
}

archive() { # component
  local image labels=()
  image=$(image_of "$1")
  mapfile -t labels < <(labels_of "$1")
  mkdir -p "$out"
  deploy/oci-archive.sh "$(qualified "$(reference "$1")")" "$PROGRAMS/$image" "$(user_of "$1")" \
    "$out/$image-$version.tar" "${labels[@]}"
}

engine() { # component
  local image arguments=() label context
  image=$(image_of "$1")
  context=$(mktemp -d)
  # Only the program travels to the engine.
  install -m 0755 "$PROGRAMS/$image" "$context/$image"
  touch -d @0 "$context/$image"
  while read -r label; do arguments+=(--label "$label"); done < <(labels_of "$1")
  arguments+=(--target "$1" --tag "$(reference "$1")" --file Dockerfile)
  case $cli in
    buildah) buildah --storage-driver vfs bud --isolation chroot --timestamp 0 "${arguments[@]}" "$context" ;;
    podman) podman build --timestamp 0 "${arguments[@]}" "$context" ;;
    *) SOURCE_DATE_EPOCH=0 "$cli" build "${arguments[@]}" "$context" ;;
  esac
  rm -rf "$context"
}

build
for component in "${chosen[@]}"; do
  case $cli in
    archive) archive "$component" ;;
    ctr)
      archive "$component"
      ctr --namespace "${CONTAINERD_NAMESPACE:-k8s.io}" images import "$out/$(image_of "$component")-$version.tar"
      ;;
    *) engine "$component" ;;
  esac
done
