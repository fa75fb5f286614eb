#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's n-gram network in PyTorch: same data, same order, same batch, same AdaGrad.

usage: ngram_torch.py TRAIN_FILE... --dict=FILE --batch=384 --seconds=20 [--threads=1 --blas=1]
                      [--try] [--emb=32 --hidden=256 --lr=0.03]

--threads: of PyTorch; --blas: of the OpenBLAS that it multiplies with (torch_blas.py). --try: so
many seconds with each of their combinations. The batch is B/S consecutive samples of each file, as
S streams give it. Reading and windowing happen before the clock starts. Prints samples/s (=
words/s), the threads, and the mean cost of the last tenth of what it trained; with --try the
fastest line first.
"""
import argparse
import time

import torch_blas

torch_blas.prepare()
import numpy as np
import torch
import torch.nn.functional as F


def windows(path, n, start, end):
    out = []
    for line in open(path):
        s = [start] + [int(x) for x in line.split()] + [end]
        out += [s[i - n:i] for i in range(n, len(s) + 1)]
    return np.array(out, dtype=np.int64)


def train(a, vocab, batches, n_torch, n_blas):
    """(samples/s, a line that says so)"""
    torch_blas.set_threads(torch, n_torch, n_blas)
    torch.manual_seed(1)
    emb = torch.nn.Parameter(torch.randn(vocab, a.emb) * 0.1)
    w1 = torch.nn.Parameter(torch.randn(4 * a.emb, a.hidden) / (4 * a.emb) ** 0.5)
    b1 = torch.nn.Parameter(torch.zeros(a.hidden))
    w2 = torch.nn.Parameter(torch.randn(a.hidden, vocab) / a.hidden ** 0.5)
    b2 = torch.nn.Parameter(torch.zeros(vocab))
    opt = torch.optim.Adagrad([emb, w1, b1, w2, b2], lr=a.lr, eps=1e-6)
    costs, samples, started = [], 0, time.perf_counter()
    for b in batches:
        x = F.embedding(b[:, :4], emb).reshape(len(b), -1)
        cost = F.cross_entropy(torch.addmm(b2, torch.sigmoid(torch.addmm(b1, x, w1)), w2), b[:, 4])
        opt.zero_grad(set_to_none=True)
        cost.backward()
        opt.step()
        costs.append(float(cost))
        samples += len(b)
        if time.perf_counter() - started > a.seconds:
            break
    took = time.perf_counter() - started
    tail = max(1, len(costs) // 10)
    return samples / took, "rate %.0f threads %d blas %d cost %.4f samples %d seconds %.2f" % (
        samples / took, n_torch, n_blas, sum(costs[-tail:]) / tail, samples, took)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("files", nargs="+")
    p.add_argument("--dict", required=True)
    p.add_argument("--batch", type=int, default=384)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--blas", type=int, default=1)
    p.add_argument("--try", dest="trial", action="store_true")
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--emb", type=int, default=32)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--lr", type=float, default=0.03)
    a = p.parse_args()
    words = open(a.dict).read().split()
    streams = [windows(f, 5, words.index("<s>"), words.index("<e>")) for f in sorted(a.files)]
    share = a.batch // len(streams)
    steps = min(len(s) for s in streams) // share
    batches = [torch.from_numpy(np.concatenate([s[k * share:(k + 1) * share] for s in streams])) for k in range(steps)]
    tried = torch_blas.THREADS if a.trial else [(a.threads, a.blas)]
    results = [train(a, len(words), batches, *threads) for threads in tried]
    print(*(text for _, text in sorted(results, reverse=True)), sep="\n")


main()
