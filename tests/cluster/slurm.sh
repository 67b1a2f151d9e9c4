#!/usr/bin/env bash
# A private Slurm on one machine: munged, slurmctld and N slurmd on loopback ports. Needs root, no systemd, no database.
#   slurm.sh up N DIR    nodes n1..nN; export SLURM_CONF=DIR/slurm.conf then
#   slurm.sh down DIR    cancels the jobs and ends the daemons by their pid files
# PORT (17000) is the first of N + 1 ports. All nodes have this machine's host name: ranks of "different nodes" must not share memory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# Gone or a zombie: pid 1 of a container may reap late.
ended() {
  local state
  state=$(awk '/^State:/{print $2}' "/proc/$1/status" 2>/dev/null || true)
  [ -z "$state" ] || [ "$state" = Z ]
}

up() {
  local nodes=$1 dir=$2 port=${PORT:-17000} i
  mkdir -p "$dir"/{state,log,munge}
  chmod 755 "$dir"
  chmod 700 "$dir/munge"
  {
    sed "s#@DIR@#$dir#; s#@PORT@#$port#" "$here/slurm.conf.in"
    echo "NodeName=n[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=4 RealMemory=2000 State=UNKNOWN"
    echo "PartitionName=test Nodes=ALL Default=YES MaxTime=30:00 State=UP OverSubscribe=YES"
  } >"$dir/slurm.conf"
  dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 status=none
  chmod 600 "$dir/munge/key"
  munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >&2
  export SLURM_CONF=$dir/slurm.conf
  slurmctld -f "$SLURM_CONF" >&2
  # A slurmd that finds no controller to register with waits long before it asks again.
  for _ in $(seq 1 300); do
    scontrol ping 2>/dev/null | grep -q 'is UP' && break
    sleep 0.1
  done
  for i in $(seq 1 "$nodes"); do
    mkdir -p "$dir/spool/n$i" "$dir/tmp/n$i"
    slurmd -N "n$i" -f "$SLURM_CONF" >&2
  done
  for _ in $(seq 1 300); do
    [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = "$nodes" ] && return
    sleep 0.1
  done
  echo "slurm.sh: not all nodes became idle; the ends of the logs in $dir/log:" >&2
  sinfo -N >&2 || true
  tail -n 8 "$dir"/log/* >&2
  (down "$dir")
  return 1
}

down() {
  local dir=$1 file pid
  [ -f "$dir/slurm.conf" ] || exit 64
  export SLURM_CONF=$dir/slurm.conf
  timeout 10 scancel --user=root 2>/dev/null || true
  sleep 0.5
  for file in "$dir"/slurmd-*.pid "$dir/slurmctld.pid" "$dir/munge/pid"; do
    [ -f "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do
      ended "$pid" && break
      sleep 0.1
    done
    ended "$pid" || kill -9 "$pid" || true
  done
  # A hung slurmstepd outlives its slurmd; it works in DIR/log.
  for file in /proc/[0-9]*; do
    [[ "$(readlink "$file/cwd" 2>/dev/null)" = "$dir"/* ]] && kill -9 "${file#/proc/}" 2>/dev/null
  done
  return 0
}

case ${1:-} in
  up) up "$2" "$3" ;;
  down) down "$2" ;;
  *)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 64
    ;;
esac
