# shellcheck shell=bash
# Waiting for the programs, what went wrong with them, and what comes next.

readonly REPORTED=4    # pods with events and log
TROUBLED=''    # the workload that did not get there

workloads() { kubectl get daemonsets,deployments -n "$NAMESPACE" -l "$(selector_of "${CHOSEN[@]}")" -o name; }

rolled_out() {
  local until=$((SECONDS + WAIT)) workload wanted left
  for workload in $(workloads); do
    left=$((until - SECONDS))
    # In the background, so that Ctrl-C is heard at once.
    kubectl rollout status "$workload" -n "$NAMESPACE" --timeout=$((left > 1 ? left : 1))s &
    if ! wait $!; then
      TROUBLED=$workload
      return 1
    fi
    wanted=$(kubectl get "$workload" -n "$NAMESPACE" -o 'jsonpath={.kind} {.status.desiredNumberScheduled}')
    [[ $wanted != 'DaemonSet 0' ]] ||
      say "      0 pods: it starts on a node as soon as that is labelled ${NAMES[nodeLabel.key]}=${NAMES[nodeLabel.value]}"
  done
}

pods_table() {
  kubectl get pods -n "$NAMESPACE" -l "$(selector_of "${CHOSEN[@]}")" -o wide
}

events_of() { # object …: the last ones
  local name
  for name in "$@"; do
    kubectl get events -n "$NAMESPACE" --field-selector "involvedObject.name=$name" --sort-by=.metadata.creationTimestamp \
      -o 'go-template={{range .items}}{{or .lastTimestamp .eventTime}} {{.reason}}: {{.message}}{{"\n"}}{{end}}' | tail -n 5 | sed 's/^/      /'
  done
}

# All programs that are not ready, not only the one that was waited for: it may itself be waiting for another.
failure_report() {
  local pod rest found=0 makers
  say "FAIL  $TROUBLED is not ready after $WAIT s"
  while read -r pod rest; do
    [[ -n $pod && $rest != True* ]] || continue
    found=$((found + 1))
    say "pod $pod: ${rest#* }"
    # On many nodes the reason is mostly the same.
    [[ $found -le $REPORTED ]] || continue
    say '   its last events:'
    events_of "$pod"
    say '   its last log lines:'
    kubectl logs "$pod" -n "$NAMESPACE" --tail=15 2>&1 | sed 's/^/      /' || :
    advice "$rest"
  done < <(kubectl get pods -n "$NAMESPACE" -l "$(selector_of "${CHOSEN[@]}")" -o 'jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {.status.phase} {.spec.nodeName} {range .status.containerStatuses[*]}{.state.waiting.reason} {.state.waiting.message}{.state.terminated.reason}{end}{"\n"}{end}')
  if [[ $found == 0 ]]; then
    say '   no pod of it is there; the last events of what makes its pods:'
    # A Deployment's pods are made by a ReplicaSet, which tells a refusal.
    mapfile -t makers < <(kubectl get replicasets -n "$NAMESPACE" -l "app=${TROUBLED#*/}" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
    events_of "${TROUBLED#*/}" "${makers[@]}"
  fi
  say "The same command again goes on from here. Log: $LOG"
}

advice() { # state of a pod
  case $1 in
    *ImagePull* | *ErrImage* | *InvalidImageName*)
      say '   to mend: load the image into the node (ctr -n k8s.io images import FILE), or give --registry and --version that kubelet can pull' ;;
    *CreateContainerConfigError*) say '   to mend: an object that the pod names is missing: deploy without --components' ;;
    *CrashLoopBackOff* | *Error*) say '   to mend: the log above ends with the reason; exit code 64 is a wrong name in deploy/00-config.yaml or a wrong argument' ;;
    *Pending*) say "   to mend: the events above say what it waits for: kubectl describe pod -n $NAMESPACE" ;;
    *) say '   to mend: the log above and /readyz say what it waits for; a node without a Runtime has no socket in /run/amp/eKitC/xdm/sockets/' ;;
  esac
}

what_next() {
  local label=${NAMES[nodeLabel.key]}=${NAMES[nodeLabel.value]}
  title 'next'
  [[ -n $LABELLED ]] || say "label a node:           kubectl label node NODE $label"
  say "the labelled nodes:     kubectl get nodes -l $label"
  say "the programs:           kubectl get pods -n $NAMESPACE | grep lj-runtimekit"
  if is_chosen scheduler; then say "the extender that leads: kubectl get lease -n $NAMESPACE lj-runtimekit-scheduler"; fi
  say "what a node offers:     kubectl describe node NODE | grep -E 'aliyun.com|alibabacloud.com'"
  say 'metrics, on a node:     curl -s localhost:9501/metrics | head -20'
  say "a switch that failed:   kubectl logs -n $NAMESPACE job/lj-agent-NODE-enable"
  say "all of this:            $LOG"
}
