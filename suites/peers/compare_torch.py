#!/usr/bin/python3
"""dettax' training step against PyTorch eager, alternately in one run: A B B A, one block of steps each.

For every case: median step time of both, the ratio torch / dettax from paired blocks with its 95 % interval (t, on log ratios), tokens
per second, GFLOP/s and their part of the FMA peak measured between the blocks, and the part of dettax' step that is neither a matrix
product nor the loss fused with one.
Exits with 1 if --require is given and a case's ratio is lower than required.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BLIS = "/usr/lib/x86_64-linux-gnu/blis-openmp"
# name: (model, model arguments for torch, batch, sequence, ratio that the benchmark asks for)
GPT2 = ["--vocabulary=50304", "--layers=12", "--width=768", "--heads=12"]
SMALL = ["--vocabulary=8192", "--layers=4", "--width=512", "--heads=8"]
CASES = {
    "gpt2-4x64": ("gpt2-124m", GPT2, 4, 64, 1.35),
    "gpt2-4x256": ("gpt2-124m", GPT2, 4, 256, 1.2),
    "gpt-small-8x256": ("gpt-small", SMALL, 8, 256, 1.2),
}
# Two-sided 95 % quantiles of Student's t by degrees of freedom.
T95 = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]

# Ops of the step that are matrix products, with what runs in their epilogues; the fused loss is the head's three with cross-entropy between.
PRODUCTS = {op + suffix for op in ("qkv", "projection", "mlp_up", "mlp_down", "head") for suffix in ("", "_weight")} | {"head_loss"}


class Peer:
    """A process that runs steps on request and sleeps in between."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.about = json.loads(self.line())
        self.times = []

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            sys.exit(f"compare_torch.py: {self.process.args[0]} ended with code {self.process.wait()}")
        return text

    def ask(self, word, count):
        self.process.stdin.write(f"{word} {count}\n")
        self.process.stdin.flush()
        return json.loads(self.line())

    def run(self, count):
        times = self.ask("run", count)
        self.times += times
        return times

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def interval(log_ratios):
    n = len(log_ratios)
    mean = statistics.fmean(log_ratios)
    half = T95[min(n - 1, len(T95) - 1)] * statistics.stdev(log_ratios) / math.sqrt(n) if n > 1 else math.inf
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def compare(name, args):
    model, torch_arguments, batch, sequence, wanted = CASES[name]
    plain = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    blis = dict(plain, LD_LIBRARY_PATH=BLIS + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    ours = Peer([args.step_bench, model, str(batch), str(sequence), args.mode, str(args.threads)], plain)
    torch = Peer(["/usr/bin/python3", os.path.join(HERE, "torch_gpt2.py"), f"--batch={batch}", f"--sequence={sequence}",
                  f"--threads={args.threads}"] + torch_arguments, blis)
    for peer in (ours, torch):
        peer.run(args.warmup)
        peer.times.clear()
    log_ratios, peaks = [], []
    for pair in range(args.pairs):
        blocks = {}
        for peer in (ours, torch) if pair % 2 == 0 else (torch, ours):
            blocks[peer] = statistics.median(peer.run(args.steps))
        log_ratios.append(math.log(blocks[torch] / blocks[ours]))
        peaks.append(statistics.median(ours.ask("peak", 9)))
    seconds_by_op = ours.ask("ops", 3)
    products = sum(seconds for op, seconds in seconds_by_op.items() if op in PRODUCTS)
    ours.close()
    torch.close()
    ratio, low, high = interval(log_ratios)
    medians = [statistics.median(peer.times) for peer in (ours, torch)]
    peak = statistics.median(peaks)
    tokens, flops = ours.about["tokens"], ours.about["flops"]
    print(f"{name}, {args.threads} threads, {len(ours.times)} steps each in {args.pairs} pairs of blocks")
    for label, peer, median in (("dettax", ours, medians[0]), ("torch", torch, medians[1])):
        print(f"  {label:7} {median:8.4f} s a step (min {min(peer.times):.4f})  {tokens / median:8.0f} tokens/s  "
              f"{flops / median / 1e9:6.1f} GFLOP/s = {flops / median / peak:.2f} of the FMA peak  {peer.about['program']}")
    print(f"  FMA peak {peak / 1e9:.1f} GFLOP/s (median of {len(peaks)} blocks); all but matrix products and the loss fused with them: "
          f"{1 - products / sum(seconds_by_op.values()):.1%} of dettax' step (mean of 3)")
    print(f"  torch / dettax = {ratio:.3f}  (95 % interval {low:.3f} to {high:.3f}, n = {args.pairs}); wanted {wanted}", flush=True)
    return ratio >= wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--step-bench", default=os.path.join(HERE, "../../build/release/suites/step_bench"))
    parser.add_argument("--mode", default="fast")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1, help="steps of a block")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--require", action="store_true")
    args = parser.parse_args()
    if not os.path.exists(BLIS):
        sys.exit(f"compare_torch.py: {BLIS} is missing; install libblis4-openmp")
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        sys.exit(f"compare_torch.py: no case {unknown[0]}; there are {', '.join(CASES)}")
    reached = [compare(name, args) for name in args.cases]
    return 0 if all(reached) or not args.require else 1


if __name__ == "__main__":
    sys.exit(main())
