#!/usr/bin/env bash
# The kit on a real cluster, from nothing to nothing: builds the images, brings a cluster up, deploys with
# deploy-all.sh, runs the scenarios, takes everything down. Needs root, Rust, and Debian packages that it installs; Go
# where the Kubernetes programs have to be built.
#
#   e2e/run.sh          all of it (make e2e)
#   e2e/run.sh up       brings it up and leaves it (make e2e-up)
#   e2e/run.sh down     takes it down (make e2e-down)
#
# KUBE_VERSION, KUBE_BIN_DIR: see cluster.sh. TESTS: only the scenarios whose name contains it. Logs of a run that
# failed are in target/e2e-logs.
set -euo pipefail
cd "$(dirname "$0")/.."
export KUBE_VERSION=${KUBE_VERSION:-1.36.3} LAB_NAME=${LAB_NAME:-lj}
export LAB=${LAB:-${TMPDIR:-/tmp}/$LAB_NAME-lab}
target=${CARGO_TARGET_DIR:-target}
images=$target/e2e-images
logs=$target/e2e-logs
nodes=2
# The version to upgrade to and back from: the same programs under another tag.
next=1.13.1-e2e
step() { printf '\n--- %s (%s)\n' "$1" "$(date +%H:%M:%S)"; }

packages() {
  local commands=(containerd runc ip nft iptables openssl dnsmasq busybox) command missing=''
  for command in "${commands[@]}"; do command -v "$command" >/dev/null || missing+=" $command"; done
  [[ -x /usr/lib/cni/bridge ]] || missing+=' cni'
  [[ -n $missing ]] || return 0
  step "Debian packages:$missing"
  apt-get update -qq
  # shellcheck disable=SC2046 # a list of packages
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(sed -n "s/^PACKAGES='\(.*\)'/\1/p" e2e/cluster.sh) >/dev/null
}

build() {
  step 'images'
  rm -rf "$images"
  mkdir -p "$images"
  PROFILE=e2e deploy/images.sh --cli=archive --out="$images"
  PROFILE=e2e deploy/images.sh --cli=archive --out="$images" --version=$next
  bin=$(e2e/cluster.sh programs)
  deploy/oci-archive.sh "registry.k8s.io/kube-scheduler:v$KUBE_VERSION" "$bin/kube-scheduler:/usr/local/bin/kube-scheduler" 65532 \
    "$images/kube-scheduler.tar"
  step 'scenarios'
  cargo build --locked -p runtime-sim
  cargo test --locked --no-run -p scenarios --test on_a_cluster
}

up() {
  step "Kubernetes $KUBE_VERSION, $nodes nodes"
  IMAGES=$images RUNTIME_SIM=$target/debug/runtime-sim e2e/cluster.sh up $nodes
  step 'deploy-all.sh deploy'
  e2e/cluster.sh run kubectl label node node-1 lj_runtimekit_enable=true
  LJ_RUNTIMEKIT_DEPLOY_LOG=$logs/deploy.log e2e/cluster.sh run deploy/deploy-all.sh deploy --wait=180s
}

tests() {
  step 'scenarios on the cluster'
  local binary
  binary=$(cargo test --locked --no-run -p scenarios --test on_a_cluster 2>&1 | sed -n 's/.*(\(.*on_a_cluster-[0-9a-f]*\))$/\1/p')
  RUST_BACKTRACE=0 E2E_NEXT=$next e2e/cluster.sh run "$(realpath "$binary")" "${TESTS:-}"
}

collect() {
  step "collecting logs in $logs"
  local pod
  timeout 20 e2e/cluster.sh run kubectl get pods,nodes,jobs,leases -A -o wide >"$logs/objects.txt" 2>&1 || :
  timeout 20 e2e/cluster.sh run kubectl describe pods,nodes -A >"$logs/describe.txt" 2>&1 || :
  timeout 20 e2e/cluster.sh run kubectl get events -A --sort-by=.lastTimestamp >"$logs/events.txt" 2>&1 || :
  for pod in $(timeout 20 e2e/cluster.sh run kubectl -n kube-system get pods -o name 2>/dev/null); do
    timeout 20 e2e/cluster.sh run kubectl -n kube-system logs --all-containers --timestamps "$pod" >"$logs/${pod#*/}.log" 2>&1 || :
    timeout 20 e2e/cluster.sh run kubectl -n kube-system logs --previous --all-containers "$pod" >"$logs/${pod#*/}.previous.log" 2>/dev/null ||
      rm -f "$logs/${pod#*/}.previous.log"
  done
  cp "$LAB"/logs/*.log "$logs/" 2>/dev/null || :
  tail -n 40 "$logs/events.txt" "$logs/objects.txt" || :
}

# What a run must leave as it was.
traces() {
  ip -brief link | awk '{print "link", $1}'
  ip netns list | awk '{print "netns", $1}'
  awk '{print "mount", $2, $3}' /proc/mounts
  find /sys/fs/cgroup -maxdepth 2 -name "$LAB_NAME-lab*" | sed 's/^/cgroup /'
  # shellcheck disable=SC2009 # processes of the lab are known by what is on their command lines
  ps -eo args | grep -F "$LAB" | grep -v grep | sed 's/^/process /' || :
}

case ${1:-all} in
  up)
    packages
    mkdir -p "$logs"
    build
    up
    printf '\nIt is up. Every command in it begins with e2e/cluster.sh run, such as:\n  e2e/cluster.sh run kubectl get pods -n kube-system\nKUBECONFIG=%s\nmake e2e-down takes it down.\n' "$LAB/pki/admin.kubeconfig"
    ;;
  down) e2e/cluster.sh down ;;
  all)
    packages
    rm -rf "$logs"
    mkdir -p "$logs"
    build
    before=$(traces)
    undeploy=''
    # Whatever happens, it is taken down, and that it left nothing is part of the test.
    finish() {
      local code=$?
      trap - EXIT INT TERM
      [[ $code -eq 0 ]] || collect
      if [[ -n $undeploy ]] && kill -0 "$undeploy" 2>/dev/null; then
        kill "$undeploy"
        wait "$undeploy" || :
      fi
      e2e/cluster.sh down
      local left
      left=$(diff <(echo "$before") <(traces) || :)
      if [[ -n $left ]]; then
        printf 'the run left something behind, or took it away:\n%s\n' "$left"
        [[ $code -ne 0 ]] || code=1
      fi
      if [[ $code -eq 0 ]]; then step 'passed'; else step "failed ($code)"; fi
      exit "$code"
    }
    trap finish EXIT
    trap 'exit 130' INT TERM
    # It waits for most of its time.
    if [[ -z ${TESTS:-} ]]; then
      IMAGES=$images RUNTIME_SIM=$target/debug/runtime-sim e2e/undeploy.sh >"$logs/undeploy.log" 2>&1 &
      undeploy=$!
    fi
    up
    tests
    if [[ -n $undeploy ]]; then
      step 'undeploy, on a cluster of its own'
      wait "$undeploy" || { tail -n 20 "$logs/undeploy.log"; exit 1; }
      tail -n 1 "$logs/undeploy.log"
    fi
    ;;
  *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 64 ;;
esac
