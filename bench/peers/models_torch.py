#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""models_torch.py - the networks of models.py in PyTorch: same samples in the same batches, same
first values, same optimizer. PyTorch multiplies with the OpenBLAS that has threads (torch_blas.py).

usage: models_torch.py NAME FOLDER try              one process: a brief trial of each setting
       models_torch.py NAME FOLDER PASSES SETTING
       models_torch.py NAME FOLDER PASSES SETTING RANK RANKS PORT
       models_torch.py NAME jobs                    the settings of a job to try first
       models_torch.py NAME jobs SETTING            and those to try then, by the best of them

FOLDER is that of models.py, with init.npz, our first values. A setting is one word, such as
t1b2s1f0c0: threads of PyTorch, threads of OpenBLAS, gradients of embeddings
sparse, optimizer one kernel for all parameters, and for a job: each process on a core of its own.
"try" prints the settings, fastest first; what a trial does to the values is undone. With RANK: that
process of a job of DistributedDataParallel over gloo; 0 passes are a trial, whose seconds it
prints. A job's first settings have one thread of each kind; the later ones have more threads with
the best setting's gradients and optimizer, without pinned cores. Samples are tensors before the clock starts. Each pass prints
"pass K rate R cost C", the cost being the mean of what was trained."""
import os
import re
import sys
import time

import torch_blas

torch_blas.prepare()
import numpy as np
import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "drivers"))
import models

F = torch.nn.functional


class Net(torch.nn.Module):
    def __init__(self, values, sparse):
        super().__init__()
        first = {k.replace(".", "_"): torch.from_numpy(v.copy()) for k, v in values.items()}
        # Modules, not functions of a parameter: DistributedDataParallel expects sparse gradients of these modules only.
        if "e_w" in first:
            self.e = torch.nn.Embedding.from_pretrained(first.pop("e_w"), freeze=False, sparse=sparse)
        if "wide_w" in first:
            self.wide = torch.nn.EmbeddingBag.from_pretrained(first.pop("wide_w"), freeze=False, mode="sum", sparse=sparse)
        self.p = torch.nn.ParameterDict({k: torch.nn.Parameter(v) for k, v in first.items()})

    def fc(self, x, n):
        return torch.addmm(self.p[n + "_b"], x, self.p[n + "_w"])


class ngram(Net):
    def forward(self, x, y):
        h = torch.tanh(self.fc(self.e(x).flatten(1), "h"))
        return F.cross_entropy(self.fc(h, "p"), y)


class ctr_dnn(Net):
    def forward(self, ids, x, y):
        h = torch.cat((self.e(ids).flatten(1), x), 1)
        for n in ("h1", "h2", "h3", "h4"):
            h = torch.relu(self.fc(h, n))
        return F.binary_cross_entropy_with_logits(self.fc(h, "p")[:, 0], y)


class wide_deep(Net):
    def forward(self, ids, x, y):
        h = torch.cat((self.e(ids).flatten(1), x), 1)
        for n in ("h1", "h2", "h3"):
            h = torch.relu(self.fc(h, n))
        z = self.wide(ids) + self.fc(h, "deep")
        return F.binary_cross_entropy_with_logits(z[:, 0], y)


class mlp(Net):
    def forward(self, x, y):
        h = torch.relu(self.fc(x, "h1"))
        return F.cross_entropy(self.fc(torch.relu(self.fc(h, "h2")), "p"), y)


def optimizer(name, net, foreach):
    if name == "mlp":
        return torch.optim.Adam(net.parameters(), lr=0.001, foreach=foreach)
    return torch.optim.Adagrad(net.parameters(), lr=0.03 if name == "ngram" else 0.01, eps=1e-6, foreach=foreach)


def batches(name, folder, streams):
    """As many tensors as the network takes, for each step."""
    arrays = np.load(folder + "/data.npz")
    share = models.MODELS[name][0] // models.STREAMS
    columns = [k for k in ("ids", "x", "y") if k + "0" in arrays.files]
    of = {k: [arrays[k + str(s)] for s in streams] for k in columns}
    if name == "mlp":
        of["x"] = [x.astype(np.float32) / 255 for x in of["x"]]
    if name in ("ctr_dnn", "wide_deep"):
        of["y"] = [y.astype(np.float32) for y in of["y"]]
    steps = len(of["y"][0]) // share
    return [[torch.from_numpy(np.concatenate([a[k * share:(k + 1) * share] for a in of[c]])) for c in columns] for k in range(steps)]


def steps(net, step, data):
    """Seconds, and the mean cost."""
    total, began = 0.0, time.perf_counter()
    for b in data:
        step.zero_grad(set_to_none=True)
        cost = net(*b)
        cost.backward()
        step.step()
        total += float(cost)
    return time.perf_counter() - began, total / len(data)


def settings(name):
    """What one process tries; a brief test of the bench tries only the first (SETTINGS=1)."""
    found = []
    for threads in torch_blas.THREADS:
        for sparse in ((0,) if name == "mlp" else (0, 1)):
            for foreach in ((0,) if sparse else (0, 1)):  # sparse gradients take the plain way only
                found.append((*threads, sparse, foreach, 0))
    return found[:int(os.environ.get("SETTINGS", "0")) or None]


def job_settings(name, best=None):
    if best is None:
        plain = [s for s in settings(name) if s[:2] == (1, 1)]
        return plain if len(plain) == len(settings(name)) else [(*s[:4], core) for s in plain for core in (0, 1)]
    return [s for s in settings(name) if s[:2] != (1, 1) and s[2:4] == best[2:4]]


def text_of(setting):
    return "t%db%ds%df%dc%d" % setting


def setting_of(text):
    return tuple(int(n) for n in re.fullmatch(r"t(\d)b(\d)s(\d)f(\d)c(\d)", text).groups())


def make(name, values, setting):
    torch_blas.set_threads(torch, *setting[:2])
    net = globals()[name](values, bool(setting[2]))
    return net, optimizer(name, net, bool(setting[3]))


def trial(net, step, data):
    """Seconds of ten steps, the best of three tries."""
    steps(net, step, data[:3])
    return min(steps(net, step, data[3:13])[0] for _ in range(3))


def train(net, step, data, passes):
    for k in range(passes):
        took, cost = steps(net, step, data)
        print("pass %d rate %.1f cost %.6f" % (k, len(data) * len(data[0][-1]) / took, cost), flush=True)


def main():
    name = sys.argv[1]
    if sys.argv[2] == "jobs":
        best = setting_of(sys.argv[3]) if len(sys.argv) > 3 else None
        return print(*map(text_of, job_settings(name, best)))
    folder = sys.argv[2]
    values = {k: v for k, v in np.load(folder + "/init.npz").items() if not k.endswith(".ids")}
    if sys.argv[3] == "try":
        data = batches(name, folder, range(models.STREAMS))
        tried = sorted((trial(*make(name, values, s), data), s) for s in settings(name))
        return print(*(text_of(s) for _, s in tried))
    passes, setting = int(sys.argv[3]), setting_of(sys.argv[4])
    if len(sys.argv) > 5:
        return job(name, folder, passes, values, setting, *map(int, sys.argv[5:8]))
    train(*make(name, values, setting), batches(name, folder, range(models.STREAMS)), passes)


def job(name, folder, passes, values, s, rank, ranks, port):
    cores = sorted(os.sched_getaffinity(0))
    if s[4] and len(cores) >= ranks:  # before gloo starts its threads
        os.sched_setaffinity(0, cores[rank * len(cores) // ranks:(rank + 1) * len(cores) // ranks])
    os.environ["USE_LIBUV"] = "0"  # Debian's PyTorch 2.6 is built without libuv and asks for it all the same
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port, rank=rank, world_size=ranks)
    data = batches(name, folder, [rank])
    net, step = make(name, values, s)
    net = torch.nn.parallel.DistributedDataParallel(net)
    if not passes:
        t = torch.tensor([trial(net, step, data)])
        dist.all_reduce(t, dist.ReduceOp.MAX)
        say(rank, "trial %f" % t.item())
    for k in range(passes):
        dist.barrier()
        took, cost = steps(net, step, data)
        t = torch.tensor([cost])
        dist.all_reduce(t)
        say(rank, "pass %d rate %.1f cost %.6f" % (k, ranks * len(data) * len(data[0][-1]) / took, t.item() / ranks))
    # Not by way of destructors: with gloo's threads still there they hang now and then, or abort.
    # The rank that keeps the others' rendezvous leaves last.
    dist.barrier()
    time.sleep(0.5 if rank == 0 else 0)
    os._exit(0)


def say(rank, text):
    if rank == 0:
        print(text, flush=True)


main()
