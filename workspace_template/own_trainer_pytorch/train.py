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

FIELDS, IDS, DIM, HIDDEN, BATCH, STEPS, RATE = 8, 2000, 8, 32, 256, 60, 0.05
SHAPES = {"w1": (FIELDS * DIM, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 1), "b2": (1,)}
SETTINGS = "optimizer=adagrad optimizer.learning_rate=%g optimizer.epsilon=1e-6 seed=5" % RATE


def batch(step):
    """The whole job's batch: ids and clicks from a planted model, the same on every machine."""
    rng = np.random.default_rng((7, step))
    ids = rng.integers(0, IDS, (BATCH, FIELDS), dtype=np.uint64) + np.arange(FIELDS, dtype=np.uint64) * IDS
    taste = np.random.default_rng(11).normal(0, 1, FIELDS * IDS)
    clicks = rng.random(BATCH) < 1 / (1 + np.exp(-taste[ids.astype(np.int64)].sum(1)))
    return ids, clicks.astype(np.float32)


def cost_of(rows, p, clicks):
    """Sum of the samples' costs; rows[B, FIELDS, DIM]."""
    hidden = torch.relu(rows.reshape(len(rows), -1) @ p["w1"] + p["b1"])
    logit = (hidden @ p["w2"] + p["b2"]).squeeze(1)
    return torch.nn.functional.binary_cross_entropy_with_logits(logit, torch.from_numpy(clicks), reduction="sum")


def declare(ps):
    dense = {name: ps.dense(name, shape, std=0.0 if name[0] == "b" else 0.1) for name, shape in SHAPES.items()}
    table = ps.table("embedding", DIM, std=0.05)
    ps.start()
    return dense, table


def train():
    with paddle_ps.join(SETTINGS) as ps:
        dense, table = declare(ps)
        mine = slice(ps.trainer_id * BATCH // ps.n_trainers, (ps.trainer_id + 1) * BATCH // ps.n_trainers)
        for step in range(STEPS):
            ids, clicks = (part[mine] for part in batch(step))
            values = {name: ps.pull_dense(i) for name, i in dense.items()}
            rows = ps.pull_rows(table, ids)
            ps.wait()
            rows = torch.from_numpy(rows).requires_grad_()
            p = {name: torch.from_numpy(v).requires_grad_() for name, v in values.items()}
            cost = cost_of(rows, p, clicks)
            cost.backward()
            for name, i in dense.items():
                ps.push_dense(i, p[name].grad.numpy())
            ps.push_rows(table, ids, rows.grad.numpy())
            ps.step_end(len(ids), [cost.item()])
            if ps.trainer_id == 0:
                report(ps)
        ps.pass_end()
        if ps.trainer_id == 0:
            report(ps)
        ps.save("output", "model")


def report(ps):
    for step, samples, sums in ps.step_sums(1):
        print("step %d cost %.6f" % (step, sums[0] / samples), flush=True)


def plain():
    """No servers: values start as the servers would make them, which a client without servers (local=1) tells."""
    with paddle_ps.join(SETTINGS + " local=1") as ps:
        dense, table = declare(ps)
        values = {name: ps.pull_dense(i) for name, i in dense.items()}
        rows = ps.pull_rows(table, np.arange(FIELDS * IDS), create=False)
        ps.wait()
    p = {name: torch.from_numpy(v).requires_grad_() for name, v in values.items()}
    embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(rows), freeze=False, sparse=True)
    optimizer = torch.optim.Adagrad([*p.values(), *embedding.parameters()], lr=RATE, eps=1e-6)
    for step in range(STEPS):
        ids, clicks = batch(step)
        optimizer.zero_grad()
        cost = cost_of(embedding(torch.from_numpy(ids.astype(np.int64))), p, clicks) / BATCH
        cost.backward()
        optimizer.step()
        print("step %d cost %.6f" % (step, cost.item()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    plain() if "--plain" in sys.argv else train()
