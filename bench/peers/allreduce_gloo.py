"""allreduce_gloo.py RANK PORT MB SECONDS - ms of PyTorch's gloo all_reduce of MB megabytes between two processes (rank 0 prints)."""
import os
import sys
import time

import torch
import torch.distributed as dist

rank, port, mb, limit = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=2)
a = torch.zeros(int(mb * 1e6 / 4))
t0 = time.perf_counter()
for _ in range(3):
    dist.all_reduce(a)
steps = torch.tensor([max(5, int(limit / ((time.perf_counter() - t0) / 3)))])
dist.broadcast(steps, 0)
t0 = time.perf_counter()
for _ in range(int(steps)):
    dist.all_reduce(a)
if rank == 0:
    print(f"{(time.perf_counter() - t0) / int(steps) * 1e3:.2f}")
