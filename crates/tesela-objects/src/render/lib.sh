# Functions that the steps of this folder use. Sourced by them, not run by itself.
#
# DRY_RUN=1       print each changing command instead of running it
# WAIT_SECONDS    how long to wait for a node or a roll-out (default 1800)
# ALSO_RESTART    pods (namespace/name, blanks between) that a node step may restart although the plan lets them stay
# EVICT_SECONDS   how long to try an eviction that a PodDisruptionBudget refuses (default 600)
set -euo pipefail

WAIT_SECONDS=${WAIT_SECONDS:-1800}
EVICT_SECONDS=${EVICT_SECONDS:-600}
DRY_RUN=${DRY_RUN:-0}

say() { printf '%s\n' "$*" >&2; }
stop() { printf 'STOP: %s\n' "$*" >&2; exit 1; }

# Runs a command that changes something, or prints it.
change() {
  if [ "$DRY_RUN" = 1 ]; then
    { printf 'would run:'; printf ' %q' "$@"; printf '\n'; } >&2
  else
    "$@"
  fi
}

# has LIST ITEM: whether a line of LIST is ITEM.
has() {
  case $'\n'"$1"$'\n' in *$'\n'"$2"$'\n'*) return 0 ;; *) return 1 ;; esac
}

# label NODE KEY: the value of a node's label; empty when absent.
label() {
  kubectl get node "$1" -o "go-template={{with .metadata.labels}}{{with index . \"$2\"}}{{.}}{{end}}{{end}}"
}

# annotation NODE KEY: the value of a node's annotation; empty when absent.
annotation() {
  kubectl get node "$1" -o "go-template={{with .metadata.annotations}}{{with index . \"$2\"}}{{.}}{{end}}{{end}}"
}

# expect_label NODE KEY TODAY NEW: stops when the label is neither what the plan saw nor what it becomes.
expect_label() {
  local now
  now=$(label "$1" "$2")
  if [ "$now" != "$3" ] && [ "$now" != "$4" ]; then
    stop "node $1: label $2 is '$now'; the plan saw '$3'. The cluster has changed since: plan again."
  fi
}

# set_label NODE KEY VALUE: an empty value removes the label.
set_label() {
  if [ -n "$3" ]; then
    change kubectl label node "$1" "$2=$3" --overwrite
  else
    change kubectl label node "$1" "$2-"
  fi
}

# join_pool NODE POOL: sets tesela.dev/pool and keeps the former value for leave_pool.
join_pool() {
  local now
  now=$(label "$1" tesela.dev/pool)
  if [ "$now" = "$2" ]; then return; fi
  if [ -n "$now" ]; then change kubectl annotate node "$1" "tesela.dev/pool-before=$now" --overwrite; fi
  set_label "$1" tesela.dev/pool "$2"
}

# leave_pool NODE: puts tesela.dev/pool back.
leave_pool() {
  local before
  before=$(annotation "$1" tesela.dev/pool-before)
  set_label "$1" tesela.dev/pool "$before"
  if [ -n "$before" ]; then change kubectl annotate node "$1" tesela.dev/pool-before-; fi
}

# value LIST KEY: what stands behind `KEY=` in a line of LIST; empty when no line has it.
value() {
  local line
  while read -r line; do
    case $line in "$2="*) printf '%s' "${line#"$2="}"; return ;; esac
  done <<<"$1"
}

# gpu_units ITEMS...: the GPU resources of one pod as ` name=amount`: of its containers (`c:name=amount`) together,
# or of its largest init container (`i:name=amount`).
gpu_units() {
  local item names='' name amount sum most
  for item in "$@"; do
    name=${item#?:}
    name=${name%%=*}
    case $name in
      nvidia.com/gpu | nvidia.com/gpu.* | nvidia.com/mig-*) has "$names" "$name" || names="$names$name"$'\n' ;;
    esac
  done
  while read -r name; do
    if [ -z "$name" ]; then continue; fi
    sum=0 most=0
    for item in "$@"; do
      amount=${item##*=}
      case $item in
        "c:$name=$amount") sum=$((sum + amount)) ;;
        "i:$name=$amount") if [ "$amount" -gt "$most" ]; then most=$amount; fi ;;
      esac
    done
    if [ "$most" -gt "$sum" ]; then sum=$most; fi
    printf ' %s=%s' "$name" "$sum"
  done <<<"$names"
}

# gpu_pods ARGS...: the pods that `kubectl get pods ARGS` finds, that have not ended and that request GPUs, one
# per line: namespace, name, state (ending, unbound, its phase, `+` behind it when it is ready), owner, resources.
gpu_pods() {
  local template namespace name state kind owner hash resources found
  template='{{range .items}}{{.metadata.namespace}} {{.metadata.name}}'
  template+=' {{if .metadata.deletionTimestamp}}ending{{else if not .spec.nodeName}}unbound{{else}}{{.status.phase}}{{range .status.conditions}}{{if eq .type "Ready"}}{{if eq .status "True"}}+{{end}}{{end}}{{end}}{{end}}'
  template+='{{$kind := "Pod"}}{{$owner := .metadata.name}}{{range .metadata.ownerReferences}}{{if .controller}}{{$kind = .kind}}{{$owner = .name}}{{end}}{{end}}'
  template+=' {{$kind}} {{$owner}}'
  template+='{{$hash := "-"}}{{with .metadata.labels}}{{with index . "pod-template-hash"}}{{$hash = .}}{{end}}{{end}} {{$hash}}'
  template+='{{range .spec.initContainers}}{{$c := "i"}}{{with .restartPolicy}}{{$c = "c"}}{{end}}{{with .resources}}{{with .limits}}{{range $name, $n := .}} {{$c}}:{{$name}}={{$n}}{{end}}{{end}}{{end}}{{end}}'
  template+='{{range .spec.containers}}{{with .resources}}{{with .limits}}{{range $name, $n := .}} c:{{$name}}={{$n}}{{end}}{{end}}{{end}}{{end}}'
  template+='{{"\n"}}{{end}}'
  kubectl get pods "$@" -o "go-template=$template" | while read -r namespace name state kind owner hash resources; do
    # shellcheck disable=SC2086 # each word is one resource
    found=$(gpu_units $resources)
    if [ -z "$found" ]; then continue; fi
    if [ "$kind" = ReplicaSet ] && [ "$hash" != - ]; then owner=${owner%"-$hash"}; fi
    printf '%s %s %s %s%s\n' "$namespace" "$name" "$state" "$owner" "$found"
  done
}

# pods_of_node NODE: gpu_pods of one node, the GPU stack's own left out.
pods_of_node() {
  gpu_pods --all-namespaces --field-selector "spec.nodeName=$1,status.phase!=Succeeded,status.phase!=Failed" |
    while read -r line; do
      if [ "${line%% *}" != "$STACK_NAMESPACE" ]; then printf '%s\n' "$line"; fi
    done
}

# pods_of_owner NAMESPACE OWNER: gpu_pods of one workload.
pods_of_owner() {
  local namespace name state owner resources
  gpu_pods -n "$1" --field-selector 'status.phase!=Succeeded,status.phase!=Failed' |
    while read -r namespace name state owner resources; do
      if [ "$owner" = "$2" ]; then printf '%s %s %s %s %s\n' "$namespace" "$name" "$state" "$owner" "$resources"; fi
    done
}

# is_labelled NODE MIG PLUGIN: whether the node has its new labels already; empty MIG or PLUGIN = not asked.
is_labelled() {
  if [ -z "$2$3" ]; then return 1; fi
  if [ -n "$2" ] && [ "$(label "$1" nvidia.com/mig.config)" != "$2" ]; then return 1; fi
  if [ -n "$3" ] && [ "$(label "$1" nvidia.com/device-plugin.config)" != "$3" ]; then return 1; fi
}

# check_pods NODE PODS ALSO KEEPS MAY_HOLD: compares the GPU pods of the node with what the plan knows there, by
# workload and count, and stops when they differ. PODS are evicted; of each workload in KEEPS (`namespace/name=n`)
# n other pods may be there; ALSO are workloads that stay by the plan and that the executor may hit; MAY_HOLD are
# units that may stay in use (see check_idle).
check_pods() {
  local live namespace name state owner resources others='' owners='' line key count names known differs='' hit=''
  live=$(pods_of_node "$1")
  while read -r namespace name state owner resources; do
    if [ -z "$namespace" ] || [ "$state" = ending ] || has "$2" "$namespace/$name"; then continue; fi
    others="$others$namespace/$owner $namespace/$name"$'\n'
    has "$owners" "$namespace/$owner" || owners="$owners$namespace/$owner"$'\n'
    if has "$3" "$namespace/$owner" && ! also "$namespace/$name"; then hit="$hit $namespace/$name"; fi
  done <<<"$live"
  while read -r key; do
    if [ -z "$key" ]; then continue; fi
    count=0 names=''
    while read -r line; do
      if [ "${line%% *}" = "$key" ]; then count=$((count + 1)) names="$names ${line#* }"; fi
    done <<<"$others"
    known=$(value "$4" "$key")
    if [ "$count" -gt "${known:-0}" ]; then
      differs="$differs  $key: $count pods that this step lets be, the plan knows ${known:-0}:$names"$'\n'
    fi
  done <<<"$owners"
  if [ -n "$differs" ]; then
    printf 'node %s:\n%s' "$1" "$differs" >&2
    stop "node $1 holds other GPU pods than the plan knows there. Finish the steps before this one; if they are done, the cluster has changed since: plan again."
  fi
  if [ -n "$hit" ]; then
    stop "node $1: this step restarts also:$hit, which the plan lets stay. See STEP.md. Run again with ALSO_RESTART='${hit# }' if they may restart."
  fi
  check_idle "$1" "$2" "$5"
}

# also POD: whether the caller has named the pod (namespace/name) in ALSO_RESTART.
also() {
  case " ${ALSO_RESTART:-} " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# check_idle NODE PODS MAY_HOLD: stops when pods other than PODS hold more units of a resource than the GPUs offer
# that this step leaves alone: then a GPU that must be idle is not. Names are those before sharing.
check_idle() {
  local live namespace name state owner resources item resource amount held='' who units
  if [ -z "$3" ]; then return; fi
  live=$(pods_of_node "$1")
  while read -r item; do
    resource=${item%%=*} units=0 who=''
    while read -r namespace name state owner resources; do
      if [ -z "$namespace" ] || has "$2" "$namespace/$name" || also "$namespace/$name"; then continue; fi
      for held in $resources; do
        amount=${held##*=} held=${held%%=*}
        if [ "${held%.shared}" = "$resource" ]; then
          units=$((units + amount)) who="$who $namespace/$name"
          if [ "$state" = ending ]; then who="$who (ending)"; fi
        fi
      done
    done <<<"$live"
    if [ "$units" -gt "${item##*=}" ]; then
      stop "node $1: $units of $resource stay in use and at most ${item##*=} may, because the others are on GPUs that this step needs idle:$who. If some are ending, wait; else plan again."
    fi
  done <<<"$3"
}

# cordoned NODE: `yes` when it takes no new pods.
cordoned() {
  kubectl get node "$1" -o 'go-template={{if .spec.unschedulable}}yes{{end}}'
}

# fence NODE: cordons it, unless somebody has; unfence undoes only our own cordon. A cordon and no taint,
# because DaemonSets tolerate a cordon: the GPU stack's own pods must be able to come back.
fence() {
  if [ "$(cordoned "$1")" = yes ]; then
    say "node $1 is cordoned already and stays so"
    return
  fi
  change kubectl annotate node "$1" tesela.dev/cordoned=yes --overwrite
  change kubectl cordon "$1"
}

unfence() {
  if [ "$(annotation "$1" tesela.dev/cordoned)" != yes ]; then return; fi
  change kubectl uncordon "$1"
  change kubectl annotate node "$1" tesela.dev/cordoned-
}

# pod_uid NAMESPACE POD: empty when it is not there.
pod_uid() {
  kubectl get pod "$2" -n "$1" --ignore-not-found -o 'jsonpath={.metadata.uid}'
}

# evict NAMESPACE POD: through the eviction API, so that PodDisruptionBudgets hold; waits until it is gone. By its uid,
# because a StatefulSet makes the next pod under the same name, at once.
evict() {
  local uid body deadline
  if [ "$DRY_RUN" = 1 ]; then
    say "would evict: $1/$2"
    return
  fi
  uid=$(pod_uid "$1" "$2")
  if [ -z "$uid" ]; then return; fi
  body='{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"},"deleteOptions":{"preconditions":{"uid":"%s"}}}'
  # shellcheck disable=SC2059 # the body is the format
  body=$(printf "$body" "$2" "$1" "$uid")
  deadline=$((SECONDS + EVICT_SECONDS))
  until printf '%s' "$body" | kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" -f - >/dev/null; do
    if [ "$(pod_uid "$1" "$2")" != "$uid" ]; then return; fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      stop "pod $1/$2 could not be evicted in $EVICT_SECONDS s; look at its PodDisruptionBudget"
    fi
    sleep 5
  done
  say "evicted $1/$2"
  until [ "$(pod_uid "$1" "$2")" != "$uid" ]; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      stop "pod $1/$2 was evicted and is still there after $EVICT_SECONDS s"
    fi
    sleep 2
  done
}

# evict_from NODE PODS: the named pods of this node, and those in ALSO_RESTART.
evict_from() {
  local live namespace name state owner resources
  live=$(pods_of_node "$1")
  while read -r namespace name state owner resources; do
    if [ -z "$namespace" ] || [ "$state" = ending ]; then continue; fi
    if has "$2" "$namespace/$name" || also "$namespace/$name"; then evict "$namespace" "$name" </dev/null; fi
  done <<<"$live"
}

# ready_pods NAMESPACE OWNER: how many GPU pods of a workload are ready.
ready_pods() {
  local namespace name state owner resources count=0
  while read -r namespace name state owner resources; do
    case $state in *+) count=$((count + 1)) ;; esac
  done <<<"$(pods_of_owner "$1" "$2")"
  printf '%s' "$count"
}

# wait_ready NAMESPACE OWNER COUNT: until so many pods of the workload are ready.
wait_ready() {
  local deadline=$((SECONDS + WAIT_SECONDS))
  if [ "$DRY_RUN" = 1 ]; then return; fi
  until [ "$(ready_pods "$1" "$2")" -ge "$3" ]; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      stop "$1/$2 has fewer than $3 ready pods after $WAIT_SECONDS s; kubectl get pods -n $1 says why"
    fi
    sleep 5
  done
}

# evict_one NAMESPACE POD OWNER HOW: evicts one pod; with HOW `wait` until its workload has as many ready pods as
# before. A pod without an owner is not created again by anybody.
evict_one() {
  local before
  before=$(ready_pods "$1" "$3")
  evict "$1" "$2" </dev/null
  if [ "$2" = "$3" ]; then
    say "nobody creates pod $1/$2 again: do it now"
  elif [ "$4" = wait ]; then
    wait_ready "$1" "$3" "$before" </dev/null
  fi
}

# move_pods NODE PODS HOW: evicts the named pods of a node, one by one.
move_pods() {
  local live namespace name state owner resources
  live=$(pods_of_node "$1")
  while read -r namespace name state owner resources; do
    if [ -n "$namespace" ] && [ "$state" != ending ] && has "$2" "$namespace/$name"; then
      evict_one "$namespace" "$name" "$owner" "$3"
    fi
  done <<<"$live"
}

# check_left NODE PODS: stops when one of the pods is still on the node.
check_left() {
  local live namespace name state owner resources
  if [ "$DRY_RUN" = 1 ]; then return; fi
  live=$(pods_of_node "$1")
  while read -r namespace name state owner resources; do
    if [ -n "$namespace" ] && has "$2" "$namespace/$name"; then
      stop "node $1: pod $namespace/$name is still there; finish the step that moves it"
    fi
  done <<<"$live"
}

# check_empty NODE: stops when the node holds a GPU pod.
check_empty() {
  local live
  if [ "$DRY_RUN" = 1 ]; then return; fi
  live=$(pods_of_node "$1")
  if [ -n "$live" ]; then stop "node $1 still holds GPU pods: $live"; fi
}

# check_fenced NODE, check_open NODE: whether it takes no new pods, or does.
check_fenced() {
  if [ "$(cordoned "$1")" != yes ]; then stop "node $1 is not cordoned"; fi
}

check_open() {
  if [ "$(cordoned "$1")" = yes ]; then say "node $1 is cordoned, by somebody else than these steps"; fi
}

# evict_holders NODE RESOURCES: every pod of the node that requests one of the resources.
evict_holders() {
  local live namespace name state owner resources resource
  live=$(pods_of_node "$1")
  while read -r namespace name state owner resources; do
    for resource in $resources; do
      if has "$2" "${resource%%=*}"; then
        evict "$namespace" "$name" </dev/null
        break
      fi
    done
  done <<<"$live"
}

# allocatable NODE: its GPU resources as `name=amount`, sorted, those of amount 0 left out: a name that is no
# longer offered stays in the node's status with 0.
allocatable() {
  kubectl get node "$1" -o 'go-template={{range $k, $v := .status.allocatable}}{{$k}}={{$v}}{{"\n"}}{{end}}' |
    while read -r line; do
      case $line in
        *=0) ;;
        nvidia.com/gpu=* | nvidia.com/gpu.* | nvidia.com/mig-*) printf '%s\n' "$line" ;;
      esac
    done | LC_ALL=C sort
}

# check_node NODE EXPECTED MIG PLUGIN: whether the node offers what it shall. Empty MIG or PLUGIN = not asked.
# The state label has no generation and may be of the request before, so the resources must agree too.
check_node() {
  local found ok=0 state
  found=$(allocatable "$1")
  if [ "$found" != "$2" ]; then
    say "node $1 offers: $(printf '%s' "$found" | tr '\n' ' ')"
    say "  expected:    $(printf '%s' "$2" | tr '\n' ' ')"
    ok=1
  fi
  if [ -n "$3" ]; then
    state=$(label "$1" nvidia.com/mig.config.state)
    if [ "$(label "$1" nvidia.com/mig.config)" != "$3" ]; then say "node $1: nvidia.com/mig.config is not '$3'"; ok=1; fi
    if [ "$state" != success ]; then say "node $1: nvidia.com/mig.config.state is '$state'"; ok=1; fi
  fi
  if [ -n "$4" ] && [ "$(label "$1" nvidia.com/device-plugin.config)" != "$4" ]; then
    say "node $1: nvidia.com/device-plugin.config is not '$4'"
    ok=1
  fi
  return "$ok"
}

# wait_node: check_node until it holds.
wait_node() {
  local deadline=$((SECONDS + WAIT_SECONDS))
  if [ "$DRY_RUN" = 1 ]; then return; fi
  until check_node "$@" 2>/dev/null; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      check_node "$@" || true
      stop "node $1 is not as expected after $WAIT_SECONDS s. It stays fenced; ./undo.sh takes it back."
    fi
    sleep 10
  done
}

# wait_mig NODE VALUE: until the state of this request is success.
wait_mig() {
  local deadline=$((SECONDS + WAIT_SECONDS))
  if [ "$DRY_RUN" = 1 ]; then return; fi
  # The manager answers a new value with `pending`; before that the state is the former request's.
  sleep 10
  until [ "$(label "$1" nvidia.com/mig.config)" = "$2" ] && [ "$(label "$1" nvidia.com/mig.config.state)" = success ]; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      stop "node $1: nvidia.com/mig.config.state is '$(label "$1" nvidia.com/mig.config.state)' after $WAIT_SECONDS s"
    fi
    sleep 10
  done
}

# apply FILE [FLAGS...]: server-side, so that only the fields in the file become ours.
apply() {
  local file=$1
  shift
  change kubectl apply --server-side --field-manager=tesela "$@" -f "$file"
}

# owner_type TYPE NAME NAMESPACE: a ReplicaSet that has a Deployment of its name is changed through that.
owner_type() {
  if [ "$1" = replicasets.apps ] && [ -n "$(kubectl get "deployments.apps/$2" -n "$3" --ignore-not-found -o name)" ]; then
    printf 'deployments.apps'
  else
    printf '%s' "$1"
  fi
}

# change_request NAMESPACE TYPE NAME TEMPLATE FORMER PODS: the template prints a JSON patch for the object as it is
# now. Then pods with a FORMER resource that could not come by themselves are helped on: see help_on.
change_request() {
  local type patch
  type=$(owner_type "$2" "$3" "$1")
  patch=$(kubectl get "$type/$3" -n "$1" -o "go-template-file=$4")
  if [ "$patch" = '[]' ]; then
    say "$1 $type/$3: nothing to change"
  else
    change kubectl patch "$type/$3" -n "$1" --field-manager=tesela --type=json -p "$patch"
  fi
  help_on "$1" "$type" "$3" "$5" "$6"
}

# wait_observed NAMESPACE TYPE NAME: until its controller has seen the object as it is now. Before that it makes pods of
# the former template.
wait_observed() {
  local deadline=$((SECONDS + WAIT_SECONDS)) generation observed
  if [ "$DRY_RUN" = 1 ]; then return; fi
  while true; do
    read -r generation observed <<<"$(kubectl get "$2/$3" -n "$1" -o 'jsonpath={.metadata.generation} {.status.observedGeneration}')"
    if [ "${observed:-0}" -ge "$generation" ]; then return; fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      stop "$1 $2/$3: its controller has not seen the new template after $WAIT_SECONDS s"
    fi
    sleep 1
  done
}

# help_on NAMESPACE TYPE NAME FORMER PODS: a StatefulSet waits for a pod of the former template that cannot start
# (kubernetes/kubernetes#67250), so pods that wait for a node are deleted; a ReplicaSet without a Deployment
# replaces no pod by itself, so the named PODS are evicted one by one.
help_on() {
  local live namespace name state owner resources resource former
  case $2 in statefulsets.apps | replicasets.apps | replicationcontrollers) ;; *) return ;; esac
  wait_observed "$1" "$2" "$3"
  live=$(pods_of_owner "$1" "$3")
  while read -r namespace name state owner resources; do
    former=no
    for resource in $resources; do
      if has "$4" "${resource%%=*}"; then former=yes; fi
    done
    if [ "$former" = no ] || [ "$state" = ending ]; then continue; fi
    case $2/$state in
      */unbound)
        # Looked at again: its controller may have renewed it meanwhile.
        if waits_with "$namespace" "$3" "$name" "$4"; then
          change kubectl delete pod "$name" -n "$namespace" --wait=false </dev/null
        fi
        ;;
      statefulsets.apps/*) ;;
      *) if has "$5" "$namespace/$name"; then evict_one "$namespace" "$name" "$owner" wait; fi ;;
    esac
  done <<<"$live"
}

# waits_with NAMESPACE OWNER POD FORMER: whether a pod has no node and requests a former resource.
waits_with() {
  local namespace name state owner resources resource
  while read -r namespace name state owner resources; do
    if [ "$name" != "$3" ] || [ "$state" != unbound ]; then continue; fi
    for resource in $resources; do
      if has "$4" "${resource%%=*}"; then return 0; fi
    done
  done <<<"$(pods_of_owner "$1" "$2")"
  return 1
}

# check_request NAMESPACE TYPE NAME TEMPLATE FORMER: whether nothing is left to change, and the new pods run.
check_request() {
  local type patch
  type=$(owner_type "$2" "$3" "$1")
  patch=$(kubectl get "$type/$3" -n "$1" -o "go-template-file=$4")
  if [ "$patch" != '[]' ]; then
    say "$1 $type/$3 still has the former request"
    return 1
  fi
  case $type in
    deployments.apps | statefulsets.apps | daemonsets.apps)
      kubectl rollout status "$type/$3" -n "$1" --timeout="${WAIT_SECONDS}s"
      ;;
  esac
  check_former "$1" "$3" "$5"
}

# check_former NAMESPACE NAME FORMER: stops when a pod of the workload still requests a former resource.
check_former() {
  local live namespace name state owner resources resource
  live=$(pods_of_owner "$1" "$2")
  while read -r namespace name state owner resources; do
    if [ "$state" = ending ]; then continue; fi
    for resource in $resources; do
      if has "$3" "${resource%%=*}"; then stop "pod $namespace/$name still requests ${resource%%=*}"; fi
    done
  done <<<"$live"
}

# open_quota NAMESPACE QUOTA PATCH: takes keys out of a quota of ours, where it is there.
open_quota() {
  if [ -z "$(kubectl get resourcequota "$2" -n "$1" --ignore-not-found -o name)" ]; then return; fi
  change kubectl patch resourcequota "$2" -n "$1" --field-manager=tesela --type=merge -p "$3"
}

# check_quota NAMESPACE QUOTA EXPECTED: lines `resource=amount`, sorted.
check_quota() {
  local found
  found=$(kubectl get resourcequota "$2" -n "$1" -o 'go-template={{range $k, $v := .spec.hard}}{{$k}}={{$v}}{{"\n"}}{{end}}' | LC_ALL=C sort)
  if [ "$found" = "$3" ]; then return; fi
  say "quota $1/$2 is: $(printf '%s' "$found" | tr '\n' ' ')"
  say "  expected:   $(printf '%s' "$3" | tr '\n' ' ')"
  return 1
}

# check_closed NAMESPACE RESOURCES: stops when a pod still requests what is about to be closed.
check_closed() {
  local live namespace name state owner resources resource
  live=$(gpu_pods -n "$1" --field-selector 'status.phase!=Succeeded,status.phase!=Failed')
  while read -r namespace name state owner resources; do
    for resource in $resources; do
      resource=${resource%%=*}
      if has "$2" "$resource"; then
        stop "pod $namespace/$name requests $resource, which this step closes: it runs on, and could not come back. Change its request first."
      fi
    done
  done <<<"$live"
}

# check_known KEY LIST: stops when a node carries a value of a label that is not in LIST.
check_known() {
  local live node value
  live=$(kubectl get nodes -o "go-template={{range .items}}{{.metadata.name}} {{with .metadata.labels}}{{with index . \"$1\"}}{{.}}{{end}}{{end}}{{\"\\n\"}}{{end}}")
  while read -r node value; do
    if [ -z "$value" ] || has "$2" "$value"; then continue; fi
    stop "node $node: label $1 is '$value', which the ConfigMap of this step lacks. Render again with --existing and the ConfigMap that has it."
  done <<<"$live"
}

# policy: the one ClusterPolicy of the GPU Operator.
policy() {
  local found
  found=$(kubectl get clusterpolicies.nvidia.com -o name)
  case $found in
    '' | *$'\n'*) stop "expected one ClusterPolicy, found: $found" ;;
  esac
  printf '%s' "$found"
}

# use_config POLICY PART NAME DEFAULT: makes ClusterPolicy spec.PART.config.name be NAME and keeps the former
# value in an annotation. DEFAULT is set only where no config was named before: the node without a label then
# gets what it had.
use_config() {
  local now patch
  now=$(kubectl get "$1" -o "jsonpath={.spec.$2.config.name}")
  if [ "$now" = "$3" ]; then
    say "$1: $2.config.name is $3 already"
    return
  fi
  patch="\"name\":\"$3\""
  if [ -z "$now" ] && [ -n "$4" ]; then patch="$patch,\"default\":\"$4\""; fi
  change kubectl annotate "$1" "tesela.dev/$2-config-before=$now" --overwrite
  change kubectl patch "$1" --field-manager=tesela --type=merge -p "{\"spec\":{\"$2\":{\"config\":{$patch}}}}"
}

# leave_config POLICY PART NAME: puts the former name back, if it is ours that is named.
leave_config() {
  local now before
  now=$(kubectl get "$1" -o "jsonpath={.spec.$2.config.name}")
  if [ "$now" != "$3" ]; then return; fi
  before=$(kubectl get "$1" -o "go-template={{with .metadata.annotations}}{{with index . \"tesela.dev/$2-config-before\"}}{{.}}{{end}}{{end}}")
  if [ -n "$before" ]; then
    change kubectl patch "$1" --field-manager=tesela --type=merge -p "{\"spec\":{\"$2\":{\"config\":{\"name\":\"$before\"}}}}"
  else
    change kubectl patch "$1" --field-manager=tesela --type=merge -p "{\"spec\":{\"$2\":{\"config\":{\"name\":null,\"default\":null}}}}"
  fi
}

# check_operands_tolerate KEY: stops when the GPU Operator's pods could not come back on a node with that taint.
check_operands_tolerate() {
  local policy tolerated
  policy=$(policy)
  tolerated=$(kubectl get "$policy" -o 'go-template={{range .spec.daemonsets.tolerations}}{{with .key}}{{.}}{{else}}*{{end}}{{"\n"}}{{end}}')
  if has "$tolerated" "$1" || has "$tolerated" '*'; then return; fi
  stop "$policy: spec.daemonsets.tolerations lacks $1; see STEP.md"
}

# check_taint NODE KEY VALUE
check_taint() {
  local found
  found=$(kubectl get node "$1" -o "go-template={{range .spec.taints}}{{if eq .key \"$2\"}}{{with .value}}{{.}}{{end}}{{end}}{{end}}")
  if [ "$found" != "$3" ]; then stop "node $1: taint $2 is '$found', expected '$3'"; fi
}

# remove_taint NODE KEY: nothing when it is not there.
remove_taint() {
  local found
  found=$(kubectl get node "$1" -o "go-template={{range .spec.taints}}{{if eq .key \"$2\"}}yes{{end}}{{end}}")
  if [ -n "$found" ]; then change kubectl taint node "$1" "$2-"; fi
}

# check_same FILE: shows how the cluster differs from FILE, and keeps that in DIFFERENT.
DIFFERENT=0
check_same() {
  kubectl diff --server-side --field-manager=tesela --force-conflicts -f "$1" || DIFFERENT=1
}
