#!/usr/bin/python3
"""GPT-2 in plain PyTorch eager, the peer that dettax' training step is measured against.

fp32 without autocast, learned positions, tanh GELU, tied head, causal attention as bmm + mask + softmax (PyTorch 1.13 has no fused one
for CPUs), torch.optim.AdamW with decay on matrices, clipping at norm 1. Protocol: says on one line what a step is, then answers
each line `run N` on stdin with a JSON list of N step times in seconds. Drawing the batch is not timed.

The BLAS is chosen by the dynamic linker: Debian's PyTorch loads libblas.so.3, so LD_LIBRARY_PATH must begin with
/usr/lib/x86_64-linux-gnu/blis-openmp (package libblis4-openmp), the fastest one for it on a CPU. compare_torch.py sets it; this script
prints the library that was really loaded.
"""
import argparse
import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attention(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(width // self.heads))
        scores = scores.masked_fill(mask, float("-inf"))
        out = functional.softmax(scores, dim=-1) @ v
        return self.projection(out.transpose(1, 2).contiguous().view(batch, length, width))

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, context, layers, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        length = tokens.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.tokens(tokens) + self.positions(torch.arange(length))
        for block in self.blocks:
            x = block(x, mask)
        logits = self.norm(x) @ self.tokens.weight.t()
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def loaded_blas():
    with open("/proc/self/maps", encoding="ascii") as maps:
        found = {line.split()[-1] for line in maps if "blas" in line.lower() or "blis" in line.lower()}
    return ", ".join(sorted(found)) or "none"


def main():
    parser = argparse.ArgumentParser(description="step times of GPT-2 in PyTorch eager")
    for name, value in (("vocabulary", 50304), ("context", 1024), ("layers", 12), ("width", 768), ("heads", 12), ("batch", 4),
                        ("sequence", 64), ("threads", 2), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = Gpt2(args.vocabulary, args.context, args.layers, args.width, args.heads)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=3e-4, betas=(0.9, 0.95), eps=1e-8)
    zipf = (torch.arange(args.vocabulary, dtype=torch.float64) + 3.7) ** -1.1

    def step():
        drawn = torch.multinomial(zipf, args.batch * (args.sequence + 1), replacement=True).view(args.batch, -1)
        tokens, targets = drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return time.perf_counter() - start

    about = f"PyTorch {torch.__version__}, {args.threads} threads, BLAS {loaded_blas()}"
    print(json.dumps({"tokens": args.batch * args.sequence, "program": about}), flush=True)
    for line in sys.stdin:
        word, count = line.split()
        if word != "run":
            sys.exit(f"torch_gpt2.py: '{line.strip()}' is not `run N`")
        print(json.dumps([step() for _ in range(int(count))]), flush=True)


if __name__ == "__main__":
    main()
