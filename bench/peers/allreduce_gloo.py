# SPDX-License-Identifier: Apache-2.0
"""allreduce_gloo.py RANK ADDRESS PORT INTERFACE MB SECONDS - ms of PyTorch's gloo all_reduce of MB megabytes
between two processes (rank 0, which listens at ADDRESS, prints)."""
import os
import sys
import time

import torch
import torch.distributed as dist

rank, address, port, interface = int(sys.argv[1]), *sys.argv[2:5]
mb, limit = float(sys.argv[5]), float(sys.argv[6])
# USE_LIBUV: Debian's PyTorch 2.6 is built without libuv and asks for it all the same.
os.environ.update(MASTER_ADDR=address, MASTER_PORT=port, GLOO_SOCKET_IFNAME=interface, USE_LIBUV="0")
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
