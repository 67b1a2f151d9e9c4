#!/usr/bin/env bash
# Hosts h1..hN as network namespaces on a bridge in a namespace of its own: the machine's network is untouched. Needs root.
#   hosts.sh up N               makes them; host K has 192.0.2.K on veth0
#   hosts.sh rate RATE          limits what each host sends, e.g. 200mbit
#   hosts.sh exec HOST CMD...   runs a command on a host, under its host name
#   hosts.sh agent HOST CMD...  the same with CMD as shell text: stands in for ssh (plm_rsh_agent)
#   hosts.sh cut|mend HOST      takes the host's link down and up
#   hosts.sh pids HOST          processes that run there
#   hosts.sh down               ends what still runs there and removes everything
# HOSTS_PREFIX (dettax) keeps several sets apart.
set -eu
prefix=${HOSTS_PREFIX:-dettax}

names() { ip netns list | awk '{print $1}' | grep "^$prefix-h" || true; }

up() {
  local i host
  ip netns add "$prefix-switch"
  ip -n "$prefix-switch" link set lo up
  ip -n "$prefix-switch" link add br0 type bridge
  ip -n "$prefix-switch" link set br0 up
  for i in $(seq 1 "$1"); do
    host=$prefix-h$i
    ip netns add "$host"
    ip -n "$host" link set lo up
    ip link add veth0 netns "$host" type veth peer name "port-h$i" netns "$prefix-switch"
    ip -n "$host" addr add "192.0.2.$i/24" dev veth0
    ip -n "$host" link set veth0 up
    ip -n "$prefix-switch" link set "port-h$i" master br0 up
  done
}

# nsenter, not `ip netns exec`: the latter remounts /sys and hides the control groups.
enter() {
  local host=$1
  shift
  exec nsenter --net="/var/run/netns/$prefix-$host" unshare --uts "$@"
}

down() {
  local name pid
  for name in $(names); do
    for pid in $(ip netns pids "$name"); do kill -9 "$pid" 2>/dev/null || true; done
  done
  for name in $(names) "$prefix-switch"; do ip netns del "$name" 2>/dev/null || true; done
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
  up) up "$1" ;;
  rate) for name in $(names); do tc -n "$name" qdisc replace dev veth0 root tbf rate "$1" burst 128k latency 50ms; done ;;
  exec)
    host=$1
    shift
    # shellcheck disable=SC2016
    enter "$host" sh -c 'hostname "$0"; exec "$@"' "$host" "$@"
    ;;
  agent)
    host=$1
    shift
    enter "$host" sh -c "hostname $host; $*"
    ;;
  cut) ip -n "$prefix-switch" link set "port-$1" down ;;
  mend) ip -n "$prefix-switch" link set "port-$1" up ;;
  pids) ip netns pids "$prefix-$1" ;;
  down) down ;;
  *)
    sed -n '2,11s/^# //p' "$0" >&2
    exit 64
    ;;
esac
