# Shared by the scripts in tools/: sourced, not run.

# Where a script that sources this runs from.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
invocation="tools/$(basename "$0") $*"

say() { printf '\n== %s\n' "$*"; }
stop() { printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# step NAME COMMAND...: says what runs and how long it took; ends the script when it fails.
step() {
  local name=$1 start=$SECONDS
  shift
  say "$name"
  "$@" || stop "$name failed, see above. To repeat: $invocation"
  printf '   %s: %d s\n' "$name" $((SECONDS - start))
}

# Bytes of memory this process may use: the machine's, or less in a container.
available_memory() {
  local kilobytes limit used bytes
  kilobytes=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  bytes=$((kilobytes * 1024))
  if [[ -r /sys/fs/cgroup/memory.max && -r /sys/fs/cgroup/memory.current ]]; then
    limit=$(cat /sys/fs/cgroup/memory.max)
    used=$(cat /sys/fs/cgroup/memory.current)
    if [[ $limit != max ]] && ((limit - used < bytes)); then bytes=$((limit - used)); fi
  fi
  echo "$bytes"
}

# Parallel compilers: one a CPU, but about a gigabyte of memory for each.
jobs_limit() {
  local cpus memory
  cpus=$(nproc)
  memory=$(($(available_memory) / (1 << 30)))
  echo $((memory < 1 ? 1 : memory < cpus ? memory : cpus))
}
