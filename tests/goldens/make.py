#!/usr/bin/env python3
"""make.py BIN OUT - remakes the goldens (`make goldens`): the first 50 costs of each model of models.py by PyTorch.

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
def forward(name, p, lines):
    t = torch.tensor(lines, dtype=torch.float32)
    if name == "ngram":
        ids = t.long()
        h = torch.tanh(p["e.w"][ids[:, :4]].flatten(1) @ p["h.w"] + p["h.b"])
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], ids[:, 4])
    if name == "mlp":
        h = torch.relu(t[:, :20] @ p["h1.w"] + p["h1.b"])
        h = torch.relu(h @ p["h2.w"] + p["h2.b"])
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], t[:, 20].long())
    if name == "lenet":
        def conv(x, n, channels, padding):  # ours is [C*3*3, F]
            w = p[n + ".w"].reshape(channels, 3, 3, -1).permute(3, 0, 1, 2)
            return torch.relu(F.conv2d(x, w, p[n + ".b"], padding=padding))
        x = F.max_pool2d(conv(t[:, :144].reshape(-1, 1, 12, 12), "c1", 1, 0), 2)
        x = F.max_pool2d(conv(x, "c2", 4, 1), 2)
        h = torch.relu(x.flatten(1) @ p["h.w"] + p["h.b"])
        return F.cross_entropy(h @ p["p.w"] + p["p.b"], t[:, 144].long())
    ids, x = t[:, 4:7].long(), t[:, :4]
    e = p["e.w"][ids]
    h = torch.relu(e.flatten(1) @ p["h1.w0"] + x @ p["h1.w1"] + p["h1.b"])
    if name == "wide_deep":
        h = torch.relu(h @ p["h2.w"] + p["h2.b"])
        z = p["wide.w"][ids].sum(1) + h @ p["deep.w"] + p["deep.b"]
    else:
        pairs = (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1, keepdim=True) / 2
        z = p["first.w"][ids].sum(1) + pairs + h @ p["deep.w"] + p["deep.b"]
    return F.binary_cross_entropy_with_logits(z[:, 0], t[:, 7])


def optimizer(name, values):
    if name == "mlp":
        return torch.optim.Adam(values, lr=0.01)
    if name == "lenet":
        return torch.optim.SGD(values, lr=0.03, momentum=0.9)
    if name == "deepfm":
        return torch.optim.SGD(values, lr=0.3)
    return torch.optim.Adagrad(values, lr=0.05, eps=1e-6)


def costs(name, p):
    values = [v.requires_grad_() for v in p.values()]
    step, streams, share = optimizer(name, values), models.data(name), models.BATCH // models.STREAMS
    for k in range(models.BATCHES):
        step.zero_grad()
        cost = forward(name, p, [line for s in streams for line in s[k * share:(k + 1) * share]])
        cost.backward()
        step.step()
        yield float(cost)


def main():
    binary, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as tmp:
        models.write(tmp)
        for name in models.MODELS:
            p = initial(binary, os.path.join(tmp, name))
            with open(os.path.join(out, name + ".txt"), "w") as f:
                f.writelines("%.8g\n" % c for c in costs(name, p))


main()
