# The end of a testbed, however it comes: sh reaper.sh RUN MARK
#
# Standard input is a pipe whose other end the testbed's process holds. It ends when that process closes it or dies, killed
# too. Then every process that carries MARK in its environment is killed, which is what the testbed started and nothing
# else, and what it left is removed: cgroups that RUN/cgroups names, and RUN itself.
run=$1 mark=$2
# Ctrl-C reaches everybody in a terminal, and this one must outlive it.
trap '' INT TERM HUP
while read -r _; do :; done

# The marked processes that live. A dead one that nobody has waited for shows no environment any more.
marked() {
  grep -lzxF -e "$mark" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3
}

tries=0
while pids=$(marked) && [ -n "$pids" ] && [ "$tries" -lt 200 ]; do
  # shellcheck disable=SC2086 # each word is one process
  kill -KILL $pids 2>/dev/null
  tries=$((tries + 1))
  sleep 0.05
done

if [ -e "$run/cgroups" ]; then
  while read -r group; do
    tries=0
    # Killed processes leave their cgroup a moment later.
    while [ -d "$group" ] && [ "$tries" -lt 100 ]; do
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
      tries=$((tries + 1))
      [ -d "$group" ] && sleep 0.05
    done
  done <"$run/cgroups"
fi

if [ -n "$TESELA_TESTBED_KEEP" ]; then
  echo "kept: $run" >&2
else
  rm -rf --one-file-system "$run"
fi
