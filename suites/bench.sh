#!/usr/bin/env bash
# Benchmarks by name: kernels, collectives, step, scaling, resolution, import, exporters, ledger, accept, projection, predict (all if none is named). Each prints what it measured beside what it is compared with,
# in the same run; nothing else should run on the machine meanwhile.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
programs=build/release/suites

kernels() { "$programs/kernel_bench" --benchmark_min_time=0.2; }
# Over threads against a memory copy, over processes against MPI's own all-reduce.
collectives() {
  "$programs/collective_bench" --benchmark_min_time=0.2
  if [ -x "$programs/mpi_collective_bench" ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --bind-to none --mca btl self,vader -np 2 \
      "$programs/mpi_collective_bench" --spin
  fi
}
# The training step against PyTorch eager, for each mode of ours.
step() {
  local mode
  for mode in fast deterministic invariant; do
    /usr/bin/python3 suites/peers/compare_torch.py --mode "$mode" --pairs 8
  done
}
# Two data-parallel ranks, as threads and as processes, against one rank with two threads on the same batch.
scaling() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  "$programs/scaling_bench" --budget 40
  "$programs/scaling_bench" --budget 40 --launcher mpirun
  "$programs/scaling_bench" --mode deterministic --budget 40
}
# Does the 95 % interval hold the truth, and how often is a mode called different from itself?
resolution() { "$programs/resolution_bench" --repetitions 40 --budget 10; }
# Ten thousand records in every format, the page of two hundred cases, and scrapes of as many, against their limits.
exporters() {
  "$programs/export_bench"
  "$programs/scrape_bench"
}

# Ledgers: what they cost a step, fingerprints against reading memory, two of ten million entries compared.
ledger() { "$programs/ledger_bench"; }

# Reading a trace of PyTorch's profiler against Python's json on the same file.
import() { "$programs/import_bench"; }

# Simulated fleets: bad nodes found, clean fleets accused.
accept() { "$programs/accept_bench"; }

# A step of 16,384 GPUs by micro-batches, and a thousand layouts.
projection() { "$programs/projection_bench"; }

# Step times of small layouts predict those of larger ones: the errors, on this machine.
predict() {
  local runs
  runs=$(mktemp -d)
  build/release/dettax run suites/predict.yaml --output-dir "$runs" --no-progress >/dev/null ||
    [ $? -eq 3 ] || { rm -rf "$runs"; return 1; }
  build/release/dettax project --predict "$runs"/*
  rm -rf "$runs"
}

names=(kernels collectives step scaling resolution import exporters ledger accept projection predict)
[ $# -gt 0 ] || set -- "${names[@]}"
for name in "$@"; do
  case " ${names[*]} " in
    *" $name "*) ;;
    *) echo "bench: no benchmark '$name'; there are ${names[*]}" >&2; exit 2 ;;
  esac
done
for name in "$@"; do
  echo "== $name"
  "$name"
done
