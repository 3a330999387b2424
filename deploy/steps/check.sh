# shellcheck shell=bash
# What is looked at before anything is changed. Each line says OK, or what to mend.

readonly LEAST_SERVER=26 LEAST_CLIENT=24
OPTIONAL_SERVED=()

checks() { # verb at the API server …
  check_kubectl
  check_server
  choose_namespace
  say "OK    namespace $NAMESPACE"
  check_rights "$@"
  [[ $VERB == deploy ]] || return 0
  read_names "$(file_config)"
  check_nodes
  check_images
}

minor_of() { local rest=${1#*.}; echo "${rest%%[!0-9]*}"; }

check_kubectl() {
  local path version
  path=$(command -v kubectl) || fail 'no kubectl on PATH: https://kubernetes.io/docs/tasks/tools/'
  version=$(kubectl version --client -o json 2>/dev/null | sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p' | head -n 1)
  [[ -n $version ]] || fail "$path does not tell its version: is it kubectl?"
  [[ $(minor_of "$version") -ge $LEAST_CLIENT ]] || fail "$path is $version: take 1.$LEAST_CLIENT or later"
  say "OK    kubectl $version ($path)"
}

check_server() {
  local answer
  if ! answer=$(kubectl get --raw /version --request-timeout=15s 2>&1); then
    say "$answer"
    fail "the API server does not answer: is KUBECONFIG (or ~/.kube/config) the right one, and its context ($(
      kubectl config current-context 2>/dev/null || echo 'none set'))?"
  fi
  SERVER_VERSION=$(sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p' <<<"$answer")
  local minor
  minor=$(minor_of "$SERVER_VERSION")
  if [[ ${minor:-0} -lt 22 ]]; then
    fail "the API server is ${SERVER_VERSION:-of no known version}: it has no server-side apply; 1.$LEAST_SERVER or later is tested"
  elif [[ $minor -lt $LEAST_SERVER ]]; then
    say "WARN  API server $SERVER_VERSION: not tested below 1.$LEAST_SERVER"
  else
    say "OK    API server $SERVER_VERSION"
  fi
}

# One request for each right, all in one call. `auth can-i` would take a call for each.
check_rights() { # verb …
  local wanted=() verb kind right refused
  for verb in "$@"; do
    for kind in /serviceaccounts /configmaps /secrets /services apps/daemonsets apps/deployments policy/poddisruptionbudgets \
      rbac.authorization.k8s.io/{clusterroles,clusterrolebindings,roles,rolebindings} node.k8s.io/runtimeclasses; do
      wanted+=("$verb $kind")
    done
  done
  if [[ $VERB == undeploy ]]; then
    wanted+=('patch /nodes' 'patch /nodes/status' 'delete batch/jobs' {list,delete}' coordination.k8s.io/leases')
  fi
  refused=$(for right in "${wanted[@]}"; do
    read -r verb kind <<<"$right"
    local resource=${kind#*/} subresource=''
    [[ $resource != */* ]] || { subresource=${resource#*/} resource=${resource%%/*}; }
    printf '%s\n' --- 'apiVersion: authorization.k8s.io/v1' 'kind: SelfSubjectAccessReview' 'spec:' \
      "  resourceAttributes: {verb: $verb, group: \"${kind%%/*}\", resource: $resource, subresource: \"$subresource\", namespace: $NAMESPACE}"
  done | kubectl create --validate=false -f - -o 'jsonpath={.status.allowed} {.spec.resourceAttributes.verb} {.spec.resourceAttributes.resource}{"\n"}' |
    sed -n '/^true/!p') || fail 'the API server does not tell what you may do: kubectl auth can-i --list'
  [[ -z $refused ]] || fail "you may not:$(sed 's/^[^ ]*/,/' <<<"$refused" | tr -d '\n' | sed 's/^,//')
      An administrator's kubeconfig is needed: kubectl auth whoami"
  say "OK    you may $(IFS=/; echo "$*") all that this needs"
}

check_nodes() {
  local label=${NAMES[nodeLabel.key]}=${NAMES[nodeLabel.value]}
  LABELLED=$(kubectl get nodes -l "$label" -o 'jsonpath={.items[*].metadata.name}') ||
    fail 'nodes can not be listed: kubectl get nodes'
  if [[ -n $LABELLED ]]; then
    say "OK    nodes labelled $label: $LABELLED"
  elif [[ $VERB == undeploy || -n $WITHOUT_NODES ]] || ! { is_chosen device-plugin || is_chosen exporter; }; then
    say "WARN  no node is labelled, so nothing runs on nodes: kubectl label node NODE $label"
  else
    fail "no node is labelled, so nothing would run on nodes: kubectl label node NODE $label
      (or deploy with --without-nodes, where nodes come later)"
  fi
}

check_images() {
  local image there component
  # kubelet names at most 50 images of a node, so one that is not named may still be there.
  there=$(kubectl get nodes -o 'go-template={{range .items}}{{$n := .metadata.name}}{{range .status.images}}{{range .names}}{{$n}} {{.}}{{"\n"}}{{end}}{{end}}{{end}}')
  for component in "${CHOSEN[@]}"; do
    while IFS= read -r image; do
      local on
      # A node names an image without a registry as docker.io/library/…
      on=$(awk -v image="$image" '{ name = $2; sub(/^docker\.io\/(library\/)?/, "", name) }
        $2 == image || name == image { printf "%s%s", (n++ ? ", " : ""), $1 }' <<<"$there")
      if [[ -n $on ]]; then
        say "OK    image $image: on $on"
      else
        say "WARN  image $image: named by no node yet; kubelet will pull it"
      fi
    done < <(rewritten_folder "$(folder_of "$component")" | sed -nE 's/^.*(image: |--job-image=)([^ "]+).*$/\2/p' | sort -u)
  done
}

# Whether the cluster serves every kind that a manifest names.
is_served() { # manifest
  local version kind path
  while read -r version kind; do
    path=/apis/$version
    [[ $version == */* ]] || path=/api/$version
    [[ $(kubectl get --raw "$path" 2>/dev/null) == *"\"kind\":\"$kind\""* ]] || return 1
  done < <(awk '/^apiVersion:/ { version = $2 } /^kind:/ { print version, $2 }' "$1" | sort -u)
}
