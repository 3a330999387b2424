# shellcheck shell=bash
# Taking it away: no object, node annotation or resource name stays, and no running pod is touched.
#
# What stays on purpose, and is told:
# - the nodes' label, which people set, and the Runtime's feature, which is as the label says: pods run on it. To switch
#   it off, remove the label while the controller is there.
# - the annotations of pods. They are the pod's own record of its cards and go with it; a kit that is deployed again
#   while the pod still runs counts these cards by them, and would have to guess for a while without.

readonly IN_NAMESPACE=deployments.apps,daemonsets.apps,jobs.batch,poddisruptionbudgets.policy,services,roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io,serviceaccounts,secrets,configmaps
readonly WORKLOADS=deployments.apps,daemonsets.apps,jobs.batch

# Objects are found by label, not by today's manifests: those of another version, or of files that were edited since, go too.
objects() { # kinds, selector: one a line, as `namespace kind/name`, `-` where it has no namespace
  local namespace
  for namespace in $(printf '%s\n' "$NAMESPACE" default kube-system | sort -u); do
    kubectl get "$1" -n "$namespace" -l "$2" -o name | sed "s#^#$namespace #" || return 1
  done
}

cluster_kinds() {
  echo clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io
  kubectl api-resources --api-group=admissionregistration.k8s.io -o name | grep -E '^(mutating|validating)admissionpolic' || :
}

cluster_objects() { # selector
  kubectl get "$(cluster_kinds | tr -s ' \n' ',' | sed 's/,$//')" -l "$1" -o name | sed 's/^/- /'
}

leases() { # the extender and the second kube-scheduler each make one by themselves, without a label
  ! is_chosen scheduler ||
    kubectl get leases -n "$NAMESPACE" -o name | sed -n "s#^lease.coordination.k8s.io/lj-runtimekit-#$NAMESPACE &#p"
}

shared_objects() {
  kubectl get configmaps -n "$NAMESPACE" -l "$PART_OF" -o name | sed "s#^#$NAMESPACE #"
  kubectl get runtimeclasses -l "$PART_OF" -o name | sed 's/^/- /'
}

remove() { # lines as of `objects`, on standard input
  local namespace object where
  while read -r namespace object; do
    [[ -n $object ]] || continue
    where=()
    [[ $namespace == - ]] || where=(-n "$namespace")
    # Background: the object goes at once, though a pod on a dead node stays a while.
    if kubectl delete "$object" "${where[@]}" --ignore-not-found --wait=false --cascade=background >/dev/null; then
      say "removed    $object${where[1]:+ from ${where[1]}}"
    fi
  done
}

pods_end() { # selector: they still write, and a controller could still make a Job
  local until=$((SECONDS + (WAIT < 120 ? WAIT : 120))) pods
  [[ $WAIT -gt 0 ]] || return 0
  while :; do
    pods=$(kubectl get pods -n "$NAMESPACE" -l "$1" -o name)
    [[ -n $pods ]] || return 0
    [[ $SECONDS -lt $until ]] || break
    sleep 1 &
    wait $!
  done
  say "WARN  still ending: ${pods//$'\n'/ }. Nothing starts them again; where their node is down they go when it is back"
}

undeploy() {
  local selector text key objects annotated
  title 'checks'
  checks get list delete
  selector=$(selector_of "${CHOSEN[@]}")
  # The names that are in use are those in the cluster; the file may have been edited since.
  text=$(cluster_config)
  read_names "${text:-$(file_config)}"
  ANNOTATIONS=()
  if is_chosen device-plugin; then ANNOTATIONS+=("${NAMES[annotations.inventory]}" "${NAMES[annotations.ownedResources]}"); fi
  if is_chosen controller; then ANNOTATIONS+=("${NAMES[annotations.lastActionStatus]}"); fi
  if ! others_are_there; then
    for key in $(former_annotations); do ANNOTATIONS+=("$key"); done
  fi

  objects=$(found_objects "$selector") && annotated=$(found_annotations) || fail 'the cluster can not be asked what is there: see above'
  if [[ -z $objects && -z $annotated ]]; then
    title 'nothing was there'
    # One that stayed earlier because of other things in it.
    [[ -n $DRY_RUN ]] || namespace_goes
  elif [[ -n $DRY_RUN ]]; then
    title 'what would go'
    sed -E 's/^- //; s/^([^ ]+) ([^ ]+)$/\2 in \1/' <<<"$objects"
    sed -E '/./s/^([^ ]+) ([^ ]+)$/annotation \2 of node\/\1/' <<<"$annotated"
    if is_chosen device-plugin; then owned_resources | sed -E 's/^([^ ]+) ([^ ]+)$/resource name \2 of node\/\1/'; fi
  else
    LEFT=()
    take_away "$selector"
    what_stays
    nothing_is_left "$selector"
  fi
}

is_chosen() { [[ " ${CHOSEN[*]} " == *" $1 "* ]]; }

# Asked again at the end, rather than noted at each step: whatever failed on the way, this is what is so.
nothing_is_left() { # selector
  local until=$((SECONDS + 20)) rest
  while :; do
    rest=$(found_objects "$1") && rest+=$'\n'$(found_annotations) || fail 'the cluster can not be asked what is left: see above'
    rest=$(sed 's/^- //' <<<"$rest" | grep . | tr '\n' ';' || :)
    [[ -n $rest && $SECONDS -lt $until ]] || break
    [[ ${#LEFT[@]} -eq 0 ]] || break
    sleep 1 &
    wait $!
  done
  if [[ -n $rest ]]; then
    [[ ${#LEFT[@]} -eq 0 ]] || say "kubelet still names: ${LEFT[*]}"
    fail "left: ${rest%;}. The same command again goes on"
  fi
  title 'done: nothing is left'
}

found_annotations() {
  local key
  for key in "${ANNOTATIONS[@]}"; do annotated_nodes "$key" | sed -E "s#^([^ ]+) .*#\\1 $key#" || return 1; done
}

found_objects() { # selector
  objects "$IN_NAMESPACE" "$1" && cluster_objects "$1" && leases || return 1
  others_are_there || shared_objects
}

# Programs of a component that was not chosen.
others_are_there() {
  local component there='' others=()
  for component in "${COMPONENTS[@]}"; do
    [[ " ${CHOSEN[*]} " == *" $component "* ]] || others+=("$component")
  done
  [[ ${#others[@]} -gt 0 ]] || return 1
  # What can not be asked is not taken for nothing: the shared objects would go.
  there=$(objects "$WORKLOADS" "$(selector_of "${others[@]}")") || fail 'the cluster can not be asked what else is there: see above'
  [[ -n $there ]]
}

# The order matters: new pods are no longer sent to a scheduler that goes; programs end before their rights and what they
# wrote on nodes; names and ConfigMap go last, so that a call that is broken off can be made again.
take_away() { # selector
  local key
  title 'programs'
  remove < <(cluster_objects "$1" | grep admissionpolic || :)
  remove < <(objects "$WORKLOADS" "$1")
  pods_end "$1"
  # Jobs that the controller made while it ended.
  remove < <(objects jobs.batch "$1")
  title 'rights, services, configuration'
  remove < <(objects "$IN_NAMESPACE" "$1")
  remove < <(cluster_objects "$1")
  remove < <(leases)
  title 'nodes'
  if is_chosen device-plugin; then withdraw_names; fi
  for key in "${ANNOTATIONS[@]}"; do
    # The annotation that says which names are ours stays with them.
    [[ ${#LEFT[@]} -gt 0 && $key == "${NAMES[annotations.ownedResources]}" ]] || remove_annotation "$key"
  done
  title 'shared objects'
  if others_are_there; then
    say 'stay: other components are there'
  elif [[ ${#LEFT[@]} -gt 0 ]]; then
    say 'stay until the resource names are gone'
  else
    runtime_class_in_use
    remove < <(shared_objects)
    namespace_goes
  fi
}

runtime_class_in_use() {
  local pods
  [[ -n $(kubectl get runtimeclasses -l "$PART_OF" -o name) ]] || return 0
  pods=$(kubectl get pods -A -o 'jsonpath={range .items[?(@.spec.runtimeClassName=="lj-runtime")]}{.metadata.namespace}/{.metadata.name} {end}')
  [[ -z $pods ]] || say "WARN  these pods name the RuntimeClass lj-runtime; they go on, but new ones like them need it: $pods"
}

# Only one that deploy made, and only when nothing else lives in it.
namespace_goes() {
  local kinds others
  [[ -n $(kubectl get namespaces -l "$PART_OF" --field-selector "metadata.name=$NAMESPACE" -o name) ]] || return 0
  kinds=$(kubectl api-resources --namespaced --verbs=list -o name | grep -Ev '^(events|endpoints|endpointslices|pods\.metrics|replicasets|controllerrevisions)' | paste -sd,)
  others=$(kubectl get "$kinds" -n "$NAMESPACE" --ignore-not-found -o name | grep -vE '^(configmap/kube-root-ca.crt|serviceaccount/default)$' || :)
  if [[ -n $others ]]; then
    say "namespace/$NAMESPACE stays, other things are in it: ${others//$'\n'/ }"
  else
    remove <<<"- namespace/$NAMESPACE"
  fi
}

what_stays() {
  local pods key=${NAMES[annotations.allocated]}
  title 'what stays'
  say "the label ${NAMES[nodeLabel.key]} on nodes, the feature of their Runtimes, and containerd's handler lj-runtime: as they are"
  pods=$(kubectl get pods -A -o "go-template={{range .items}}{{\$p := .metadata}}{{with .metadata.annotations}}{{if or (index . \"$key\") (index . \"${NAMES[annotations.assigned]}\")}}{{\$p.namespace}}/{{\$p.name}} {{end}}{{end}}{{end}}")
  if [[ -n $pods ]]; then
    say "the record of cards on pods, which goes with them: $pods"
    say "   (away with it now, if the kit is not to come back while they run: kubectl annotate pods -A --all $key- ${NAMES[annotations.assigned]}-)"
  fi
}
