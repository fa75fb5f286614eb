#!/usr/bin/python3
"""models_torch.py - the networks of models.py in PyTorch: same samples in the same batches, same first values, same optimizer.

usage: models_torch.py NAME FOLDER PASSES [RANK RANKS PORT SETTING]
       models_torch.py NAME

FOLDER is that of models.py, with init.npz, our first values. Alone: one process, at the best of its settings (one or two threads,
gradients of embeddings sparse or dense, optimizer one kernel for each parameter or for all), which are tried for some steps first and
undone. With RANK: that process of a job of DistributedDataParallel over gloo, one thread each, with one of its settings; 0 passes: a trial of
some steps, whose seconds it prints; a job's settings are also with and without a core of its own for each process. With NAME alone: how many settings a job has. Samples are tensors before the clock starts.
Prints the setting, and a line "pass K rate R cost C" for each pass, the cost being the mean of what was trained."""
import itertools
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

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
    for threads in (1, 2):
        for sparse in ((False,) if name == "mlp" else (False, True)):
            for foreach in ((False,) if sparse else (False, True)):  # sparse gradients take the plain way only
                yield threads, sparse, foreach


def make(name, values, setting):
    torch.set_num_threads(setting[0])
    net = globals()[name](values, setting[1])
    return net, optimizer(name, net, setting[2])


def best_setting(name, values, data):
    best = None
    for s in itertools.islice(settings(name), int(os.environ.get("SETTINGS", "0")) or None):
        net, step = make(name, values, s)
        steps(net, step, data[:3])
        took = min(steps(net, step, data[3:13])[0] for _ in range(2))
        if not best or took < best[0]:
            best = took, s
    return best[1]


def main():
    if len(sys.argv) == 2:
        return print(len(job_settings(sys.argv[1])))
    name, folder, passes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    values = {k: v for k, v in np.load(folder + "/init.npz").items() if not k.endswith(".ids")}
    if len(sys.argv) > 4:
        return job(name, folder, passes, values, *map(int, sys.argv[4:8]))
    data = batches(name, folder, range(models.STREAMS))
    s = best_setting(name, values, data)
    print("setting threads %d sparse %d foreach %d" % tuple(map(int, s)), flush=True)
    net, step = make(name, values, s)
    for k in range(passes):
        took, cost = steps(net, step, data)
        print("pass %d rate %.1f cost %.6f" % (k, len(data) * len(data[0][-1]) / took, cost), flush=True)


def job(name, folder, passes, values, rank, ranks, port, number):
    s, own_core = job_settings(name)[number]
    cores = sorted(os.sched_getaffinity(0))
    if own_core and len(cores) >= ranks:
        os.sched_setaffinity(0, cores[rank * len(cores) // ranks:(rank + 1) * len(cores) // ranks])  # before gloo starts its threads
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port, rank=rank, world_size=ranks)
    data = batches(name, folder, [rank])
    net, step = make(name, values, s)
    net = torch.nn.parallel.DistributedDataParallel(net)
    if not passes:
        steps(net, step, data[:3])
        t = torch.tensor([min(steps(net, step, data[3:13])[0] for _ in range(2))])
        dist.all_reduce(t, dist.ReduceOp.MAX)
        say(rank, "trial %f" % t.item())
    else:
        say(rank, "setting threads %d sparse %d foreach %d own core %d" % (*map(int, s), own_core))
    for k in range(passes):
        dist.barrier()
        took, cost = steps(net, step, data)
        t = torch.tensor([cost])
        dist.all_reduce(t)
        say(rank, "pass %d rate %.1f cost %.6f" % (k, ranks * len(data) * len(data[0][-1]) / took, t.item() / ranks))
    # Not by way of destructors: with gloo's threads still there they hang now and then, or abort. Who keeps the others' rendezvous leaves last.
    dist.barrier()
    time.sleep(0.5 if rank == 0 else 0)
    os._exit(0)


def job_settings(name):
    return [(s, own_core) for s in settings(name) if s[0] == 1 for own_core in (False, True)]


def say(rank, text):
    if rank == 0:
        print(text, flush=True)


main()
