# shellcheck shell=bash
# What the programs wrote on nodes, and how it goes.

# kubelet writes a removed name back at its next status update, every 10 s where nobody changed that.
readonly STAYS_AWAY=15

annotated_nodes() { # annotation: the nodes that have it, each with its value
  kubectl get nodes -o "go-template={{range .items}}{{\$n := .metadata.name}}{{with .metadata.annotations}}{{with index . \"$1\"}}{{\$n}} {{.}}{{\"\\n\"}}{{end}}{{end}}{{end}}"
}

owned_resources() { # one line for each: node, resource
  local annotated node names name
  annotated=$(annotated_nodes "${NAMES[annotations.ownedResources]}") || return 1
  while read -r node names; do
    for name in $(tr -d '[]"' <<<"$names" | tr ',' ' '); do echo "$node $name"; done
  done <<<"$annotated"
}

remove_annotation() { # annotation: from all nodes
  local node
  while read -r node _; do
    if kubectl annotate node "$node" "$1-" >/dev/null; then say "removed    $1 from node/$node"; fi
  done < <(annotated_nodes "$1")
}

# ---- when the annotations' keys change ----
# The values go to the new keys before the programs restart, so that these know what they did; the old keys go when no
# program is left that writes them. In between they are noted on the ConfigMap, in case this is broken off.

readonly FORMER=lj-runtimekit/former-annotations

former_annotations() {
  kubectl get configmap "$CONFIG" -n "$NAMESPACE" --ignore-not-found \
    -o "go-template={{with .metadata.annotations}}{{with index . \"$FORMER\"}}{{.}}{{end}}{{end}}"
}

annotations_are_copied() {
  local text which old node value former
  local -A new=()
  text=$(cluster_config)
  [[ -n $text ]] || return 0
  for which in inventory ownedResources lastActionStatus; do new[$which]=${NAMES[annotations.$which]}; done
  read_names "$text"
  former=$(former_annotations)
  for which in "${!new[@]}"; do
    old=${NAMES[annotations.$which]}
    [[ $old != "${new[$which]}" ]] || continue
    former="${former:+$former }$old"
    kubectl annotate configmap "$CONFIG" -n "$NAMESPACE" --overwrite "$FORMER=$former" >/dev/null
    while read -r node value; do
      kubectl annotate node "$node" --overwrite "${new[$which]}=$value" >/dev/null
      say "copied     $old of node/$node to ${new[$which]}"
    done < <(annotated_nodes "$old")
  done
  read_names "$(file_config)"
}

former_annotations_go() {
  local old former
  former=$(former_annotations)
  [[ -n $former ]] || return 0
  for old in $former; do
    # One that was taken back into use is not a former one.
    [[ " ${NAMES[*]} " == *" $old "* ]] || remove_annotation "$old"
  done
  kubectl annotate configmap "$CONFIG" -n "$NAMESPACE" "$FORMER-" >/dev/null
}

# ---- resource names ----

# Of each owned resource: node, name, the node's Ready condition, its count in capacity and in allocatable; - for none.
owned_now() { # owned resources
  local nodes
  nodes=$(kubectl get nodes -o 'go-template={{range .items}}{{.metadata.name}} {{range .status.conditions}}{{if eq .type "Ready"}}{{.status}}{{end}}{{end}}{{range $k, $v := .status.capacity}} c:{{$k}}={{$v}}{{end}}{{range $k, $v := .status.allocatable}} a:{{$k}}={{$v}}{{end}}{{"\n"}}{{end}}') ||
    return 1
  awk '
    function known(key) { return key in count ? count[key] : "-" }
    NR == FNR { ready[$1] = $2; for (i = 3; i <= NF; i++) { split($i, pair, "="); count[$1 pair[1]] = pair[2] } next }
    NF { print $1, $2, ($1 in ready ? ready[$1] : "-"), known($1 "c:" $2), known($1 "a:" $2) }' <(echo "$nodes") <(echo "$1")
}

# Takes the kit's resource names out of the nodes' status, and fills LEFT with those that did not go.
#
# kubelet keeps a resource for 5 minutes after its plugin has ended: it says how many there are (allocatable 0, so nothing
# is scheduled to them) and writes a name that was removed back every 10 s. Then it writes a count of 0, once, and never
# names it again, even while pods still hold some. So that 0 is waited for and removed, which is the earliest moment at
# which a name can go for good; it is gone when it has stayed away for longer than kubelet takes to write. (Measured on
# 1.36.3: 0 after 300 s.) A kubelet that is down writes nothing: its node is cleaned at once, and has the names again for
# a while when kubelet is back.
withdraw_names() {
  local until=$((SECONDS + WAIT)) all now node name ready capacity allocatable key path told=$SECONDS
  local -A away=() patches=()
  LEFT=()
  # A source that does not answer is not an empty answer.
  all=$(owned_resources) || { LEFT=('names that the API server did not tell'); return; }
  [[ -n $all ]] || return 0
  mapfile -t LEFT < <(tr ' ' / <<<"$all")
  say 'kubelet gives the names up 5 minutes after the plugin has ended; nothing is scheduled to them meanwhile.'
  say 'Ctrl-C does no harm: undeploy again goes on.'
  while :; do
    if now=$(owned_now "$all"); then
      LEFT=() patches=()
      while read -r node name ready capacity allocatable; do
        key=$node/$name path=${name//\//~1}
        if [[ $capacity$allocatable == -- ]]; then
          away[$key]=${away[$key]:-$SECONDS}
          [[ $ready != True || $((SECONDS - away[$key])) -ge $STAYS_AWAY ]] || LEFT+=("$key")
          continue
        fi
        unset "away[$key]"
        LEFT+=("$key")
        [[ $capacity == [0-] || $ready != True || $SECONDS -ge $until ]] || continue
        [[ $capacity == - ]] || patches[$node]+=",{\"op\":\"remove\",\"path\":\"/status/capacity/$path\"}"
        [[ $allocatable == - ]] || patches[$node]+=",{\"op\":\"remove\",\"path\":\"/status/allocatable/$path\"}"
      done <<<"$now"
      for node in "${!patches[@]}"; do
        kubectl patch node "$node" --subresource=status --type=json -p "[${patches[$node]#,}]" >/dev/null ||
          say "WARN  resource names could not be removed from node/$node, trying again"
      done
      [[ ${#LEFT[@]} -gt 0 ]] || break
    fi
    [[ $SECONDS -lt $until ]] || return 0
    if [[ $((SECONDS - told)) -ge 60 ]]; then
      say "waiting for kubelet on $(printf '%s\n' "${LEFT[@]%%/*}" | sort -u | wc -l) nodes, ${#LEFT[@]} names, at most $((until - SECONDS)) s more"
      told=$SECONDS
    fi
    sleep 5 &
    wait $!
  done
  sed -E 's#^([^ ]+) (.*)#removed    \2 from node/\1#' <<<"$all"
}
