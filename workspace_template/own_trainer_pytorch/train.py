#!/usr/bin/env python3
"""A click model in PyTorch whose parameters are on paddlectl's parameter servers: an embedding table
sharded over the servers, and a small dense tower. Each trainer computes its part of a batch. The
servers average the gradients and apply AdaGrad; all trainers continue with the same values.

    train.py           a trainer of a job (paddlectl run)
    train.py --plain   the same model in one ordinary PyTorch process, for comparison
"""
import sys

import numpy as np
import torch

import paddle_ps
import paddle_ps.torch

FIELDS, IDS, DIM, HIDDEN, BATCH, STEPS, RATE = 8, 2000, 8, 32, 256, 60, 0.05
SETTINGS = "optimizer=adagrad optimizer.learning_rate=%g optimizer.epsilon=1e-6 seed=5" % RATE


def batch(step):
    """The whole job's batch: ids and clicks from a planted model, the same on every machine."""
    rng = np.random.default_rng((7, step))
    ids = rng.integers(0, IDS, (BATCH, FIELDS)) + np.arange(FIELDS) * IDS
    taste = np.random.default_rng(11).normal(0, 1, FIELDS * IDS)
    clicks = rng.random(BATCH) < 1 / (1 + np.exp(-taste[ids].sum(1)))
    return torch.from_numpy(ids), torch.from_numpy(clicks.astype(np.float32))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = paddle_ps.torch.Embedding(DIM, std=0.05)
        self.tower = torch.nn.Sequential(torch.nn.Linear(FIELDS * DIM, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1))

    def forward(self, ids):
        return self.tower(self.embedding(ids).flatten(1)).squeeze(1)


criterion = torch.nn.BCEWithLogitsLoss()


def train():
    with paddle_ps.join(SETTINGS) as ps:
        model = Net()
        optimizer = paddle_ps.torch.Optimizer(model, ps)
        mine = slice(ps.trainer_id * BATCH // ps.n_trainers, (ps.trainer_id + 1) * BATCH // ps.n_trainers)
        for step in range(STEPS):
            ids, clicks = (part[mine] for part in batch(step))
            optimizer.zero_grad()
            loss = criterion(model(ids), clicks)
            loss.backward()
            optimizer.step(len(ids), loss)
            report(ps)
        ps.pass_end()
        report(ps)
        ps.save("output", "model")


def report(ps):
    for step, samples, sums in ps.step_sums(1):
        if ps.trainer_id == 0:
            print("step %d cost %.6f" % (step, sums[0] / samples), flush=True)


def plain():
    """No servers: the values with which they would begin come from a client without servers (local=1)."""
    with paddle_ps.join(SETTINGS + " local=1") as ps, torch.no_grad():
        model = Net()
        paddle_ps.torch.Optimizer(model, ps)
        rows = model.embedding(torch.arange(FIELDS * IDS))
    model.embedding = torch.nn.Embedding.from_pretrained(rows, freeze=False, sparse=True)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=RATE, eps=1e-6)
    for step in range(STEPS):
        ids, clicks = batch(step)
        optimizer.zero_grad()
        loss = criterion(model(ids), clicks)
        loss.backward()
        optimizer.step()
        print("step %d cost %.6f" % (step, loss.item()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    plain() if "--plain" in sys.argv else train()
