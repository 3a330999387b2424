#!/usr/bin/env bash
# Puts the Runtime Kit on a cluster, or takes it away. It can be called again after any failure and goes on.
#
#   deploy-all.sh deploy|undeploy [options]
#
#   --components=a,b   only these of device-plugin, scheduler, exporter, controller (default: all)
#   --namespace=NAME   where it runs (default: where it is installed already, else kube-system)
#   --registry=PREFIX  put before the images' names, such as registry.example/kit (default: as in the manifests)
#   --version=TAG      tag of the kit's images (default: $lj_runtimekit_version, else as in the manifests)
#   --wait=DURATION    how long to wait, such as 120s or 2m; 0 does not wait (default: 3m; undeploy: 7m)
#   --dry-run          says what would change, and changes nothing
#   --without-nodes    deploy though no node is labelled yet
#
# Everything is also written, with times, to $LJ_RUNTIMEKIT_DEPLOY_LOG (default: ./lj-runtimekit-deploy-<date>.log).
# Exit codes: 0 done, 1 failed (the last lines say what to do), 64 a wrong argument, 130 interrupted.
# Needs kubectl 1.24 or later. Guide: docs/DEPLOY.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR
source "$here/steps/names.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/steps/check.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/steps/apply.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/steps/rollout.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/steps/nodes.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/steps/remove.sh"

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"; }
wrong() { printf '%s\n' "$*" >&2; exit 64; }
say() { printf '%s\n' "$*"; }
title() { printf '\n== %s\n' "$*"; }
TOLD=''    # why it ends
fail() { say "FAIL  $*"; TOLD=yes; exit 1; }

# Each program on its own; the job agent and the second kube-scheduler belong to the one that they work for.
readonly COMPONENTS=(device-plugin scheduler exporter controller)
folder_of() { echo "$here/${1//-/}"; }
apps_of() { # component: the values of the label `app` on its objects
  case $1 in
    scheduler) echo lj-runtimekit-scheduler lj-runtimekit-kube-scheduler ;;
    controller) echo lj-runtimekit-controller lj-runtimekit-controller-job-agent ;;
    *) echo "lj-runtimekit-$1" ;;
  esac
}
selector_of() { # component …: a label selector for all their objects
  local component all=()
  for component in "$@"; do read -ra all <<<"${all[*]} $(apps_of "$component")"; done
  (IFS=,; echo "app in (${all[*]})")
}

arguments() {
  local argument
  case ${1:-} in
    deploy | undeploy) VERB=$1 ;;
    -h | --help) usage; exit 0 ;;
    '') usage >&2; exit 64 ;;
    *) wrong "no verb '$1': deploy or undeploy" ;;
  esac
  shift
  CHOSEN=() NAMESPACE='' REGISTRY='' VERSION=${lj_runtimekit_version:-} DRY_RUN='' WITHOUT_NODES='' WAIT=180
  [[ $VERB == deploy ]] || WAIT=420
  for argument in "$@"; do
    case $argument in
      --components=*) IFS=, read -ra CHOSEN <<<"${argument#*=}" ;;
      --namespace=*) NAMESPACE=${argument#*=}
        [[ $NAMESPACE =~ ^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$ ]] ||
          wrong "--namespace=$NAMESPACE is no name of a namespace: at most 63 of a-z, 0-9 and -, - neither first nor last" ;;
      --registry=*) REGISTRY=${argument#*=} REGISTRY=${REGISTRY%/}
        [[ $REGISTRY =~ ^[a-zA-Z0-9][-a-zA-Z0-9._:/]*$ ]] || wrong "--registry=$REGISTRY is no image prefix such as registry.example/kit" ;;
      --version=*) VERSION=${argument#*=} ;;
      --wait=*) WAIT=$(seconds "${argument#*=}") || wrong "$argument is no duration such as 120s or 2m; 0 does not wait" ;;
      --dry-run) DRY_RUN=yes ;;
      --without-nodes) WITHOUT_NODES=yes ;;
      -h | --help) usage; exit 0 ;;
      *) wrong "no option '$argument': $0 --help" ;;
    esac
  done
  [[ -z $VERSION || $VERSION =~ ^[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127}$ ]] || wrong "version '$VERSION' is no image tag"
  [[ ${#CHOSEN[@]} -gt 0 || "$*" != *--components=* ]] || wrong "--components= names none of ${COMPONENTS[*]}"
  for argument in "${CHOSEN[@]}"; do
    [[ " ${COMPONENTS[*]} " == *" $argument "* ]] || wrong "no component '$argument': ${COMPONENTS[*]}"
  done
  [[ ${#CHOSEN[@]} -gt 0 ]] || CHOSEN=("${COMPONENTS[@]}")
}

seconds() { # 0, 90s, 2m, 1h
  case $1 in
    0) echo 0 ;;
    *[!0-9smh]* | [smh]*) return 1 ;;
    *s) [[ ${1%s} =~ ^[0-9]{1,6}$ ]] && echo $((10#${1%s})) ;;
    *m) [[ ${1%m} =~ ^[0-9]{1,4}$ ]] && echo $((10#${1%m} * 60)) ;;
    *h) [[ ${1%h} =~ ^[0-9]{1,2}$ ]] && echo $((10#${1%h} * 3600)) ;;
    *) return 1 ;;
  esac
}

# ---- the log ----

stamped() {
  local line
  while IFS= read -r line || [[ -n $line ]]; do printf '%(%H:%M:%S)T %s\n' -1 "$line"; done
}

log_begins() {
  LOG=${LJ_RUNTIMEKIT_DEPLOY_LOG:-./lj-runtimekit-deploy-$(date +%Y%m%d-%H%M%S).log}
  if ! : 2>/dev/null >>"$LOG"; then
    say "WARN  no log is kept: $LOG can't be written; set LJ_RUNTIMEKIT_DEPLOY_LOG"
    LOG=/dev/null
  fi
  exec 3>&1 4>&2
  # The logger outlives Ctrl-C, so that the last line is kept too.
  exec > >(trap '' INT TERM; stamped | tee -a "$LOG" >&3) 2>&1
  LOGGER=$!
}

log_ends() {
  local code=$?
  trap '' INT TERM
  [[ $code == 0 || -n $TOLD ]] || say 'FAIL  stopped at what is said above. The same command again goes on'
  exec 1>&3 2>&4
  wait "$LOGGER" 2>/dev/null || :
  exit "$code"
}

interrupted() {
  trap '' INT TERM
  # What runs in the background does not get the terminal's Ctrl-C.
  jobs -p | xargs -r kill 2>/dev/null || :
  say 'interrupted: what is done stays; the same command again goes on'
  TOLD=yes
  exit 130
}

# ---- the two verbs ----

deploy() {
  title 'checks'
  checks create patch get
  local component
  if [[ -n $DRY_RUN ]]; then
    title 'what would change (+ new, - old)'
    differences
    return
  fi
  title 'shared objects'
  namespace_is_there
  annotations_are_copied
  apply_folder "$here"
  for component in "${CHOSEN[@]}"; do
    title "$component"
    apply_folder "$(folder_of "$component")"
  done
  if [[ -n $NAMES_CHANGED && ${#CHOSEN[@]} -lt ${#COMPONENTS[@]} ]]; then
    say 'WARN  the names changed: components that were not deployed now take the new ones at their next start'
  fi
  if [[ $WAIT -gt 0 ]]; then
    title "waiting for the pods, at most $WAIT s"
    rolled_out || { failure_report; TOLD=yes; exit 1; }
    [[ ${#CHOSEN[@]} -lt ${#COMPONENTS[@]} ]] || former_annotations_go
  fi
  title 'pods'
  pods_table
  what_next
}

main() {
  arguments "$@"
  trap interrupted INT TERM
  log_begins
  trap log_ends EXIT
  say "$VERB ${CHOSEN[*]}${VERSION:+, version $VERSION}${DRY_RUN:+ (dry run)}; log: $LOG"
  "$VERB"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
