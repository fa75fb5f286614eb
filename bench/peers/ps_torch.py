# SPDX-License-Identifier: Apache-2.0
"""ps_torch.py DIM ROWS KEYS SECONDS - Mkeys/s of PyTorch's EmbeddingBag(sparse) with Adagrad: look
up KEYS random rows, back, step. A brief trial with 1, 2 and all threads of PyTorch x as many of
OpenBLAS, then the better of the two fastest settings."""
import sys
import time

import torch_blas

torch_blas.prepare()
import torch

dim, rows, n = (int(a) for a in sys.argv[1:4])
seconds = float(sys.argv[4])
emb = torch.nn.EmbeddingBag(rows, dim, mode="sum", sparse=True)
opt = torch.optim.Adagrad(emb.parameters(), lr=0.01)
offsets = torch.arange(n)
lists = [torch.randperm(rows)[:n] for _ in range(16)]
grad = torch.zeros(n, dim)


def step(k):
    opt.zero_grad(set_to_none=True)
    emb(lists[k % 16], offsets).backward(grad)
    opt.step()


def rate(threads, limit):
    torch_blas.set_threads(torch, *threads)
    for k in range(3):
        step(k)
    k, began = 0, time.perf_counter()
    while time.perf_counter() - began < limit:
        step(k)
        k += 1
    return k * n / (time.perf_counter() - began) / 1e6


tried = sorted(torch_blas.THREADS, key=lambda threads: -rate(threads, seconds / 4))
print(f"{max(rate(threads, seconds) for threads in tried[:2]):.2f}")
