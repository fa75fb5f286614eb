#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py BIN OUT - remakes the goldens (`make goldens`): the first 50 costs of each model of models.py by PyTorch, and then that of
the same data as test data.

The initial values are ours: a function of the seed, saved by BIN/paddle_worker with save_initial and exported as npz. The
optimizers' formulas are those of docs/sources.md."""
import os
import subprocess
import sys
import tempfile

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models

F = torch.nn.functional


def initial(binary, folder):
    worker = os.path.join(binary, "paddle_worker")
    subprocess.run([worker, "trainer", "--local=1", "--save_initial=1", "--save_dir=model", "--n_streams=3", "--batch_size=%d" % models.BATCH,
                    "--num_passes=1", "--seed=5"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.path.join(binary, "paddlectl"), "export", "--model=%s/model/pass-init" % folder, "--out=%s/init.npz" % folder],
                   check=True, stdout=subprocess.DEVNULL)
    return {k: torch.from_numpy(v.copy()) for k, v in numpy.load(folder + "/init.npz").items() if not k.endswith(".ids")}


# Rows of tables are looked up in dense tensors: the gradient of rows that a batch does not touch is 0, and under the optimizers that
# are used with tables here (sgd, adagrad) they stay as they are.
class BatchNorm:
    """Of each stream's share by itself. The running mean and variance go on after a step, and are used when not training."""
    def __init__(self, p, name, momentum, shares):
        self.p, self.name, self.momentum, self.shares, self.seen = p, name, momentum, shares, []

    def __call__(self, x, training):
        gamma, beta = self.p[self.name + ".gamma"].flatten(), self.p[self.name + ".beta"].flatten()
        if not training:
            return F.batch_norm(x, self.p[self.name + ".mean"].detach().flatten(), self.p[self.name + ".variance"].detach().flatten(), gamma, beta, False, eps=1e-5)
        parts = x.chunk(self.shares)
        over = [0] + list(range(2, x.dim()))
        self.seen = [[f(part.detach(), over) for part in parts] for f in (torch.mean, torch.var)]
        return torch.cat([F.batch_norm(part, None, None, gamma, beta, True, eps=1e-5) for part in parts])

    def step(self):
        for what, seen in zip((".mean", ".variance"), self.seen):
            w = self.p[self.name + what].detach()
            w.copy_(self.momentum * w + (1 - self.momentum) * (sum(seen) / len(seen)).reshape(w.shape))


def pool(table, lists):
    return torch.stack([table[torch.tensor(one)].mean(0) if one else torch.zeros(table.shape[1]) for one in lists])


def towers(p, lines):
    column = [list(c) for c in zip(*lines)]
    u, age, m = (torch.tensor(c) for c in column[:3])
    y = torch.tensor(column[5])
    ea, eg = p["ea.w"][age], pool(p["eg.w"], column[3])
    user = torch.tanh(p["eu.w"][u] @ p["ut.w0"] + ea @ p["ut.w1"] + p["ut.b"])
    movie = torch.tanh(p["em.w"][m] @ p["mt.w0"] + eg @ p["mt.w1"] + pool(p["ew.w"], column[4]) @ p["mt.w2"] + p["mt.b"])
    match = 0.6 * (user * movie).sum(1) / (user.norm(dim=1) * movie.norm(dim=1))
    level = eg @ p["level.w0"] + ea @ p["level.w1"] + p["level.b"]
    return ((match + level[:, 0] + p["kind.w"][u][:, 0] + p["good.w"][m][:, 0] - y) ** 2).mean()


def two_ways(v):
    """Products of all pairs of the n vectors v[..., n, D]: D sums over the pairs, and the dot product of each pair."""
    k, l = torch.tril_indices(v.shape[-2], v.shape[-2], -1)
    products = v[..., k, :] * v[..., l, :]
    return products.sum(-2), products.sum(-1)


def pairs_model(p, lines):
    column = [list(c) for c in zip(*lines)]
    x, ids, y = torch.tensor(column[:4]).T, torch.tensor(column[4:7]).T, torch.tensor(column[8], dtype=torch.float32)
    bottom = torch.tanh(x @ p["bottom.w"] + p["bottom.b"])
    nfm, dots = two_ways(torch.cat([bottom[:, None], p["e.w"][ids]], 1))
    tags = torch.stack([two_ways(p["tags.w"][one])[0] for one in column[7]])
    h = sum(part @ p["h.w%d" % i] for i, part in enumerate((bottom, dots, nfm, tags)))
    z = torch.relu(h + p["h.b"]) @ p["deep.w"] + p["deep.b"]
    fm = torch.stack([two_ways(p["fm.w"][one])[1].sum() for one in column[7]])
    return F.binary_cross_entropy_with_logits(z[:, 0] + fm, y)


def forward(name, p, lines, norms, training=True):
    if name in ("towers", "pairs"):
        return {"towers": towers, "pairs": pairs_model}[name](p, lines)
    t = torch.tensor(lines, dtype=torch.float32)
    if name == "ngram":
        ids = t.long()
        h = torch.tanh(p["e.w"][ids[:, :4]].flatten(1) @ p["h.w"] + p["h.b"])
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], ids[:, 4])
    if name == "line":
        return ((t[:, :6] @ p["p.w"] + p["p.b"] - t[:, 6:]) ** 2).mean()
    if name == "mlp":
        h = torch.relu(t[:, :20] @ p["h1.w"] + p["h1.b"])
        h = torch.relu(h @ p["h2.w"] + p["h2.b"])
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], t[:, 20].long())

    def conv(x, n, channels, padding):  # ours is [C*3*3, F]
        return F.conv2d(x, p[n + ".w"].reshape(channels, 3, 3, -1).permute(3, 0, 1, 2), p[n + ".b"].flatten(), padding=padding)
    if name == "batch_norm":
        x = torch.relu(norms[0](conv(t[:, :36].reshape(-1, 1, 6, 6), "c", 1, 0), training))
        h = torch.tanh(norms[1](x.flatten(1) @ p["h.w"] + p["h.b"], training))
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], t[:, 36].long())
    if name == "lenet":
        x = F.max_pool2d(torch.relu(conv(t[:, :144].reshape(-1, 1, 12, 12), "c1", 1, 0)), 2)
        x = F.max_pool2d(torch.relu(conv(x, "c2", 4, 1)), 2)
        h = torch.relu(x.flatten(1) @ p["h.w"] + p["h.b"])
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], t[:, 144].long())
    ids, x = t[:, 4:7].long(), t[:, :4]
    e = p["e.w"][ids]
    if name == "dcn":
        x0 = torch.cat([e.flatten(1), x], 1)
        xl = x0 * (x0 @ p["c1.w"] + p["c1.b"]) + x0
        xl = x0 * (xl @ p["c2.v"] @ p["c2.u"] + p["c2.b"]) + xl
        xl = x0 * (xl @ p["c3.w"]) + p["c3.b"] + xl
        z = torch.relu(xl @ p["h.w"] + p["h.b"]) @ p["p.w"] + p["p.b"]
        return F.binary_cross_entropy_with_logits(z[:, 0], t[:, 7])
    h = torch.relu(e.flatten(1) @ p["h1.w0"] + x @ p["h1.w1"] + p["h1.b"])
    if name == "wide_deep":
        h = torch.relu(h @ p["h2.w"] + p["h2.b"])
        z = p["wide.w"][ids].sum(1) + h @ p["deep.w"] + p["deep.b"]
    else:
        pairs = (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1, keepdim=True) / 2
        z = p["first.w"][ids].sum(1) + pairs + h @ p["deep.w"] + p["deep.b"]
    return F.binary_cross_entropy_with_logits(z[:, 0], t[:, 7])


# Factors of the learning rate in the models: [layer] lr_factor.
FACTORS = {"towers": {"level.w0": 3, "level.w1": 3, "level.b": 3, "good.w": 2}}
AVERAGES = (".mean", ".variance")


def optimizer(name, p):
    factors = FACTORS.get(name, {})
    if factors:
        return torch.optim.Adagrad([{"params": [v], "lr": 0.04 * factors.get(k, 1)} for k, v in p.items()], eps=1e-6)
    values = [v for k, v in p.items() if not k.endswith(AVERAGES)]
    if name == "line":
        return torch.optim.SGD(values, lr=0.01, momentum=0.9)
    if name == "batch_norm":
        return torch.optim.SGD(values, lr=0.3)
    if name == "mlp":
        return torch.optim.Adam(values, lr=0.01)
    if name == "lenet":
        return torch.optim.SGD(values, lr=0.03, momentum=0.9)
    if name == "deepfm":
        return torch.optim.SGD(values, lr=0.3)
    return torch.optim.Adagrad(values, lr=0.05, eps=1e-6)


def costs(name, p):
    for v in p.values():
        v.requires_grad_()
    step, streams, share = optimizer(name, p), models.data(name), models.BATCH // models.STREAMS
    norms = [BatchNorm(p, n, m, models.STREAMS) for n, m in (("n1", 0.9), ("n2", 0.8))]
    for k in range(models.BATCHES):
        step.zero_grad()
        cost = forward(name, p, [line for s in streams for line in s[k * share:(k + 1) * share]], norms)
        cost.backward()
        step.step()
        for n in norms:
            n.step()
        yield float(cost)
    yield float(forward(name, p, [line for s in streams for line in s], norms, training=False))


def main():
    binary, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as tmp:
        models.write(tmp)
        for name in models.MODELS:
            p = initial(binary, os.path.join(tmp, name))
            with open(os.path.join(out, name + ".txt"), "w") as f:
                f.writelines("%.8g\n" % c for c in costs(name, p))


main()
