"""ps_torch.py DIM ROWS KEYS SECONDS - Mkeys/s of PyTorch's EmbeddingBag(sparse) with Adagrad: look up KEYS random rows, back, step.
The better of one and two threads."""
import sys
import time

import torch

dim, rows, n = (int(a) for a in sys.argv[1:4])
seconds = float(sys.argv[4])
best = 0
for threads in (1, 2):
    torch.set_num_threads(threads)
    emb = torch.nn.EmbeddingBag(rows, dim, mode="sum", sparse=True)
    opt = torch.optim.Adagrad(emb.parameters(), lr=0.01)
    offsets = torch.arange(n)
    lists = [torch.randperm(rows)[:n] for _ in range(16)]
    grad = torch.zeros(n, dim)

    def step(k):
        opt.zero_grad(set_to_none=True)
        emb(lists[k % 16], offsets).backward(grad)
        opt.step()

    for k in range(3):
        step(k)
    t0 = time.perf_counter()
    k = 0
    while time.perf_counter() - t0 < seconds:
        step(k)
        k += 1
    best = max(best, k * n / (time.perf_counter() - t0) / 1e6)
print(f"{best:.2f}")
