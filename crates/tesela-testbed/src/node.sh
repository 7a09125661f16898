# The first process of a node, in a mount and a PID namespace of its own: sh node.sh NODE
#
# NODE is the node's folder: settings, kubelet.yaml, containerd.toml, and what the two programs write. When this process
# ends, so does everything in its PID namespace, and its mounts are gone with the other one.
set -u
node=$1
# shellcheck source=/dev/null # NAME, BIN, CNI, IMAGE, KUBELET, ADDRESS, CONFIG
. "$node/settings"

fail() {
  echo "$1"
  tail -n 20 "$node/containerd.log" "$node/kubelet.log" 2>/dev/null
  exit 1
}

# The kubelet's folder for sockets of device plugins is a constant, and so is containerd's for sockets of its shims. Here
# they are the node's own; outside the node the same sockets are found under NODE/kubelet.
mount --make-rshared / || fail "no mount namespace"
mount -t tmpfs -o mode=755 none /var/lib || fail "no tmpfs"
mkdir -p /var/lib/kubelet && mount --bind "$node/kubelet" /var/lib/kubelet || fail "no folder for the kubelet"
mount -t tmpfs -o mode=755 none /var/log && mkdir -p /var/log/pods /var/log/containers || fail "no folder for logs"
mount -t tmpfs -o mode=755 none /run || fail "no folder for sockets"
export PATH="$BIN:$PATH"

containerd --config "$node/containerd.toml" >>"$node/containerd.log" 2>&1 &
containerd=$!
tries=0
until ctr -a "$node/containerd.sock" version >/dev/null 2>&1; do
  tries=$((tries + 1))
  { kill -0 "$containerd" 2>/dev/null && [ "$tries" -lt 300 ]; } || fail "containerd does not start"
  sleep 0.1
done
if [ -z "$(ctr -a "$node/containerd.sock" -n k8s.io images ls -q)" ]; then
  ctr -a "$node/containerd.sock" -n k8s.io images import --local "$IMAGE" >>"$node/containerd.log" 2>&1 ||
    fail "the image cannot be imported"
fi

# NODE/kubelet.want holds a number, or `off`. Another number is another kubelet.
while want=$(cat "$node/kubelet.want"); do
  if [ "$want" = off ]; then
    kill -0 "$containerd" 2>/dev/null || fail "containerd has ended"
    sleep 0.1
    continue
  fi
  "$KUBELET" kubelet --config="$node/kubelet.yaml" --kubeconfig="$CONFIG" --hostname-override="$NAME" \
    --node-ip="$ADDRESS" >>"$node/kubelet.log" 2>&1 &
  kubelet=$!
  while [ "$(cat "$node/kubelet.want")" = "$want" ]; do
    kill -0 "$kubelet" 2>/dev/null || fail "the kubelet has ended"
    kill -0 "$containerd" 2>/dev/null || fail "containerd has ended"
    sleep 0.1
  done
  kill -TERM "$kubelet" 2>/dev/null
  wait "$kubelet"
  echo "$want" >"$node/kubelet.ended"
done
