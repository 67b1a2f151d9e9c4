#!/usr/bin/env bash
# abort.sh PROGRAM MPIRUN...: a rank that fails in the middle ends the job; every other rank hears why, and mpirun says so.
set -u
program=$1
shift
for how in blocking started message elsewhere; do
  output=$(timeout 60 "$@" -np 3 "$program" --abort "$how" 2>&1)
  status=$?
  if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then
    echo "$how: mpirun ended with $status" "$output"
    exit 1
  fi
  for rank in 0 2; do
    if ! grep -q "rank $rank heard: rank 1: loss is NaN" <<<"$output"; then
      echo "$how: rank $rank did not hear the reason" "$output"
      exit 1
    fi
  done
done
