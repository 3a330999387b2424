#!/usr/bin/env bash
# A real Kubernetes cluster on one machine, for the end-to-end tests: etcd, API server, controller manager and
# scheduler in one network namespace, each node with kubelet, containerd and runc in namespaces of its own. Nothing
# listens on the host's addresses. Needs root.
#
#   e2e/cluster.sh programs       prints the folder of the Kubernetes programs; builds them where there are none
#   e2e/cluster.sh up [nodes]     prints where the kubeconfig is
#   e2e/cluster.sh down           ends everything; leaves no process, mount, namespace or interface
#   e2e/cluster.sh run COMMAND    runs a command where the API server is reachable
#   e2e/cluster.sh node N COMMAND runs a command inside node N
#   e2e/cluster.sh kill NAME      ends one part (etcd, apiserver, …); `start NAME` starts it again
#
# KUBE_VERSION (1.36.3), KUBE_BIN_DIR (folder with the Kubernetes programs), LAB (working folder), LAB_NAME (lj: begins
# the names of namespaces and cgroups, so that two clusters can be up at once), IMAGES (folder of archives that every
# node gets), RUNTIME_SIM (a Runtime simulator to run on every node).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
KUBE_VERSION=${KUBE_VERSION:-1.36.3}
LAB=${LAB:-${TMPDIR:-/tmp}/${LAB_NAME:-lj}-lab}
NAME=${LAB_NAME:-lj}
NET=$NAME-cp
API=https://10.77.0.1:6443
SERVICES=10.96.0.0/16
PACKAGES='containerd runc containernetworking-plugins iproute2 iptables nftables openssl dnsmasq-base busybox-static procps'
say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { say "$*"; exit 1; }
in_cp() { nsenter --net=/run/netns/"$NET" "$@"; }

missing() { die "no $1: apt-get install --no-install-recommends $PACKAGES"; }

programs() {
  if [[ -n ${KUBE_BIN_DIR:-} ]]; then
    BIN=$KUBE_BIN_DIR
  elif command -v kube-apiserver >/dev/null && command -v kubelet >/dev/null; then
    BIN=$(dirname "$(command -v kube-apiserver)")
  else
    BIN=${XDG_CACHE_HOME:-$HOME/.cache}/lj-runtimekit/kubernetes/$KUBE_VERSION
    "$here/kubernetes-build.sh" "$KUBE_VERSION" "$BIN"
  fi
  BIN=$(cd "$BIN" && pwd)
  ETCD=$BIN/etcd
  [[ -x $ETCD ]] || ETCD=$(command -v etcd) || missing 'etcd beside the Kubernetes programs'
  local p
  for p in containerd runc ip nsenter unshare openssl nft iptables dnsmasq busybox; do
    command -v "$p" >/dev/null || missing "$p"
  done
  [[ -x /usr/lib/cni/bridge ]] || missing 'CNI plugins'
}

# ---- certificates and credentials ----

certificate() { # name, subject, extensions
  openssl req -newkey rsa:2048 -nodes -keyout "$LAB/pki/$1.key" -subj "$2" -out "$LAB/pki/$1.csr" 2>/dev/null
  openssl x509 -req -in "$LAB/pki/$1.csr" -CA "$LAB/pki/ca.crt" -CAkey "$LAB/pki/ca.key" -CAcreateserial -days 30 \
    -extfile <(printf '%s' "${3:-extendedKeyUsage=clientAuth}") -out "$LAB/pki/$1.crt" 2>/dev/null
}

credentials() {
  mkdir -p "$LAB/pki"
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$LAB/pki/ca.key" -out "$LAB/pki/ca.crt" -days 30 \
    -subj /CN=lab-ca 2>/dev/null
  certificate apiserver /CN=kube-apiserver \
    'subjectAltName=IP:10.77.0.1,IP:10.96.0.1,IP:127.0.0.1,DNS:kubernetes.default.svc
extendedKeyUsage=serverAuth,clientAuth'
  certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  openssl genrsa -out "$LAB/pki/sa.key" 2048 2>/dev/null
  local n
  {
    echo 'admin-token,admin,admin,system:masters'
    echo 'cm-token,system:kube-controller-manager,cm'
    echo 'scheduler-token,system:kube-scheduler,scheduler'
    echo 'proxy-token,system:kube-proxy,proxy'
    for n in $(seq 1 "$NODES"); do echo "node-$n-token,system:node:node-$n,node-$n,\"system:nodes\""; done
  } >"$LAB/pki/tokens.csv"
  for n in admin cm scheduler proxy $(seq -f 'node-%g' 1 "$NODES"); do kubeconfig "$n"; done
}

kubeconfig() { # user
  cat >"$LAB/pki/$1.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$API", certificate-authority: "$LAB/pki/ca.crt"}}]
users: [{name: me, user: {token: $1-token}}]
contexts: [{name: lab, context: {cluster: lab, user: me}}]
current-context: lab
END
}

# ---- control plane ----

# With the first network namespace of a machine its folder becomes a mount, which stays when all of them are gone. Where
# it was none before, the last cluster to go takes it away.
NETNS_MADE=/run/lj-runtimekit-lab-netns
network() {
  mountpoint -q /run/netns || touch "$NETNS_MADE"
  ip netns add "$NET"
  in_cp ip link set lo up
  in_cp ip link add br0 type bridge
  in_cp ip addr add 10.77.0.1/24 dev br0
  in_cp ip link set br0 up
  in_cp ip route add $SERVICES dev br0
  in_cp sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.br0.send_redirects=0
  in_cp sysctl -qw net.bridge.bridge-nf-call-iptables=0 2>/dev/null || :
}

start() { # name
  local name=$1
  shift
  local command=()
  mapfile -t command <"$LAB/parts/$name"
  # exec: the process id written down is the part's own, not that of a shell around it.
  (exec nsenter --net=/run/netns/"$NET" setsid "${command[@]}") >>"$LAB/logs/$name.log" 2>&1 </dev/null &
  echo $! >"$LAB/parts/$name.pid"
}

part() { # name, command …: written down, so that it can be started again
  local name=$1
  shift
  printf '%s\n' "$@" >"$LAB/parts/$name"
  start "$name"
}

# One that has ended but was not waited for by its parent is ended all the same, once all of its threads are: they keep
# its ports.
is_alive() { # process id
  local threads
  threads=$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
  ((threads > 1)) || [[ $(ps -o stat= -p "$1" || :) == [!Z]* ]]
}

ends() { # name, signal
  local pid
  pid=$(cat "$LAB/parts/$1.pid" 2>/dev/null) || return 0
  kill "-${2:-TERM}" "$pid" 2>/dev/null || return 0
  local i
  for i in $(seq 1 100); do
    is_alive "$pid" || return 0
    [[ $i -lt 50 ]] || kill -KILL "$pid" 2>/dev/null || :
    sleep 0.1
  done
}

control_plane() {
  part etcd "$ETCD" --data-dir "$LAB/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
  cat >"$LAB/audit.yaml" <<'END'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, userGroups: ["system:serviceaccounts"]}
  - {level: None}
END
  part apiserver "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --advertise-address=10.77.0.1 \
    --bind-address=10.77.0.1 --secure-port=6443 --service-cluster-ip-range=$SERVICES \
    --client-ca-file="$LAB/pki/ca.crt" --tls-cert-file="$LAB/pki/apiserver.crt" \
    --tls-private-key-file="$LAB/pki/apiserver.key" --token-auth-file="$LAB/pki/tokens.csv" \
    --kubelet-client-certificate="$LAB/pki/kubelet-client.crt" --kubelet-client-key="$LAB/pki/kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$LAB/pki/sa.key" --service-account-signing-key-file="$LAB/pki/sa.key" \
    --audit-policy-file="$LAB/audit.yaml" --audit-log-path="$LAB/logs/audit.log"
  local i
  for i in $(seq 1 120); do
    kubectl get --raw /readyz >/dev/null 2>&1 && break
    [[ $i -lt 120 ]] || die "the API server is not ready: $(tail -n 3 "$LAB/logs/apiserver.log")"
    sleep 0.5
  done
  part controller-manager "$BIN/kube-controller-manager" --kubeconfig="$LAB/pki/cm.kubeconfig" \
    --service-account-private-key-file="$LAB/pki/sa.key" --root-ca-file="$LAB/pki/ca.crt" \
    --use-service-account-credentials=true --node-monitor-grace-period=20s --leader-elect=false
  part scheduler "$BIN/kube-scheduler" --kubeconfig="$LAB/pki/scheduler.kubeconfig" --leader-elect=false
  kubectl create clusterrolebinding lab-proxy --clusterrole=system:node-proxier --user=system:kube-proxy >/dev/null
}

# The names of Services, as a cluster's DNS tells them; everything else is unknown.
names() {
  mkdir -p "$LAB/hosts"
  part dns dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --no-poll --user=root --pid-file= \
    --listen-address=10.77.0.1 --bind-interfaces --local-ttl=1 --hostsdir="$LAB/hosts" --local=/local/ --local=/svc/
  part services "$here/services.sh" "$BIN/kubectl" "$LAB/pki/admin.kubeconfig" "$LAB/hosts"
}

# What pods of tests run, and what holds a pod together.
base_images() {
  mkdir -p "$LAB/images"
  local busybox
  busybox=$(command -v busybox)
  "$here/../deploy/oci-archive.sh" docker.io/lj-e2e/busybox:1 "$busybox" 0 "$LAB/images/busybox.tar" >/dev/null
  "$here/../deploy/oci-archive.sh" registry.k8s.io/pause:3.10 "$busybox" 65535 "$LAB/images/pause.tar" \
    -- sleep 1000000000 >/dev/null
  if [[ -n ${IMAGES:-} ]]; then cp "$IMAGES"/*.tar "$LAB/images/"; fi
}

kubectl() { in_cp "$BIN/kubectl" --kubeconfig "$LAB/pki/admin.kubeconfig" "$@"; }

# ---- nodes ----

node_up() { # number
  local n=$1 name=node-$1 ns=$NAME-n$1 controller
  ip netns add "$ns"
  ip link add "v$ns" netns "$NET" type veth peer name eth0 netns "$ns"
  in_cp ip link set "v$ns" master br0 up
  nsenter --net=/run/netns/"$ns" sh -c "ip link set lo up; ip addr add 10.77.0.$((10 + n))/24 dev eth0; ip link set eth0 up
    ip route add default via 10.77.0.1; sysctl -qw net.ipv4.ip_forward=1; sysctl -qw net.ipv4.conf.all.send_redirects=0"
  in_cp ip route add "10.244.$n.0/24" via "10.77.0.$((10 + n))"
  for controller in /sys/fs/cgroup/*/; do
    mkdir -p "$controller/$NAME-lab/$name"
    if [[ -e $controller/cpuset.cpus ]]; then
      local file
      for file in cpuset.cpus cpuset.mems; do
        cat "$controller/$file" >"$controller/$NAME-lab/$file"
        cat "$controller/$file" >"$controller/$NAME-lab/$name/$file"
      done
    fi
  done
  node_files "$n"
  node_start "$n"
}

node_files() {
  local n=$1 dir=$LAB/node-$1
  mkdir -p "$dir"/{kubelet,containerd,cni,log-pods,log-containers,etc-cni/net.d,etc-containerd,sockets,runtime}
  cat >"$dir/etc-cni/net.d/10-lab.conflist" <<END
{"cniVersion": "1.0.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$n.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
  cat >"$dir/etc-containerd/config.toml" <<END
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "${SNAPSHOTTER:-overlayfs}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.lj-runtime]
  runtime_type = "io.containerd.runc.v2"
  container_annotations = ["xdm.amp.com*"]
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.lj-runtime.options]
    BinaryName = "/usr/local/harp/kitC/xpu-container-runtime"
    SystemdCgroup = false
END
  # Every other node has kubelet's read-only port closed, as many clusters do.
  local read_only=0
  if ((n % 2)); then read_only=10255; fi
  cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
failSwapOn: false
address: 0.0.0.0
readOnlyPort: $read_only
clusterDNS: [10.77.0.1]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
nodeStatusUpdateFrequency: 4s
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1Mi"}
authentication: {x509: {clientCAFile: "$LAB/pki/ca.crt"}, webhook: {enabled: true}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
END
}

node_start() { # number: power on
  local n=$1 name=node-$1 ns=$NAME-n$1 dir=$LAB/node-$1
  (
    local controller
    for controller in /sys/fs/cgroup/*/; do echo $BASHPID >"$controller/$NAME-lab/$name/cgroup.procs"; done
    exec nsenter --net=/run/netns/"$ns" setsid unshare --mount --uts --ipc --pid --cgroup --fork --kill-child \
      --propagation private "$here/node-init.sh" "$name" "$dir" "$BIN" "10.77.0.$((10 + n))" "$LAB"
  ) >>"$LAB/logs/$name.log" 2>&1 </dev/null &
  echo $! >"$LAB/parts/$name.pid"
}

node_pid() { pgrep -P "$(cat "$LAB/parts/node-$1.pid")" | head -n 1; }

in_node() { # number, command …
  local pid
  pid=$(node_pid "$1")
  shift
  nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup "$@"
}

node_down() { # number: power off
  ends "node-$1" KILL
}

# ---- all of it ----

up() {
  [[ $EUID -eq 0 ]] || die 'this needs root'
  NODES=${1:-2}
  [[ ! -e $LAB/parts ]] || die "a cluster is up already in $LAB: $0 down"
  programs
  mkdir -p "$LAB"/{parts,logs}
  if [[ -n ${RUNTIME_SIM:-} ]]; then install -m 0755 "$RUNTIME_SIM" "$LAB/runtime-sim"; fi
  echo "$BIN" >"$LAB/bin"
  echo "$NODES" >"$LAB/nodes"
  say "Kubernetes from $BIN, $NODES nodes, in $LAB"
  credentials
  base_images
  network
  control_plane
  names
  local n
  for n in $(seq 1 "$NODES"); do node_up "$n"; done
  for n in $(seq 1 "$NODES"); do
    for i in $(seq 1 120); do
      [[ $(kubectl get node "node-$n" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]] && break
      [[ $i -lt 120 ]] || die "node-$n is not Ready: $(tail -n 3 "$LAB/logs/node-$n.log")"
      sleep 0.5
    done
  done
  part proxy "$BIN/kube-proxy" --kubeconfig="$LAB/pki/proxy.kubeconfig" --proxy-mode=nftables --masquerade-all \
    --hostname-override=node-1 --bind-address=10.77.0.1 --cluster-cidr=10.244.0.0/16 --conntrack-max-per-core=0 \
    --conntrack-min=0
  say 'ready'
  echo "KUBECONFIG=$LAB/pki/admin.kubeconfig, reached by: $0 run kubectl get nodes"
}

down() {
  [[ -e $LAB/parts ]] || { say 'nothing is up'; return 0; }
  local n name
  NODES=$(cat "$LAB/nodes" 2>/dev/null || echo 3)
  for n in $(seq 1 "$NODES"); do node_down "$n"; done
  for name in services dns proxy scheduler controller-manager apiserver etcd; do ends "$name" KILL; done
  for n in $(seq 1 "$NODES"); do
    ip netns del "$NAME-n$n" 2>/dev/null || :
    for controller in /sys/fs/cgroup/*/; do
      find "$controller/$NAME-lab/node-$n" -depth -type d -exec rmdir {} \; 2>/dev/null || :
    done
  done
  for controller in /sys/fs/cgroup/*/; do rmdir "$controller/$NAME-lab" 2>/dev/null || :; done
  ip netns del "$NET" 2>/dev/null || :
  if [[ -e $NETNS_MADE && -z $(ip netns list) ]]; then
    umount /run/netns && rmdir /run/netns && rm -f "$NETNS_MADE"
  fi
  rm -rf "$LAB"
  say 'all of it is gone'
}

verb=${1:-}
shift || :
[[ $verb == up || $verb == down || $verb == programs ]] || BIN=$(cat "$LAB/bin" 2>/dev/null) || die 'no cluster is up'
case $verb in
  programs) programs >&2 && echo "$BIN" ;;
  up) up "$@" ;;
  down) down ;;
  run) in_cp env "PATH=$BIN:$PATH" "KUBECONFIG=$LAB/pki/admin.kubeconfig" "$@" ;;
  node) in_node "$@" ;;
  kill) ends "$1" "${2:-KILL}" ;;
  start) start "$1" ;;
  power-off) node_down "$1" ;;
  power-on) node_start "$1" ;;
  *) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 64 ;;
esac
