#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ref_ngram.py - an independent version of the word2vec demo's network, data order and optimizer,
in numpy and float64.

It shares no code with the project. It starts from an initial model that a run has saved
(--save_initial=1). It prints the cost (a mean over samples) of each of the first batches as
"NUMBER COST", with numbers from 1.

    emb[V,E]  ->  w1 w2 w3 w4 side by side [4E]  ->  act(x W + b) [H]  ->  softmax(h W + b) [V]  ->  -log p[target]

Data: files are sorted by bytes, and file i belongs to stream i mod S. A line of ids is a sentence;
its samples are the windows of five over <s> line <e>. A step takes floor((s+1)B/S) - floor(sB/S)
samples of stream s, for s = 0..S-1 in order.
AdaGrad: g = mean gradient + l2 w;  G += g g;  w -= lr g / (sqrt(G) + eps). No l2 on biases.
"""
import argparse
import json
import os
import struct

import numpy as np


def read_model(folder):
    """{name: array} of a saved-model folder; its format is described in src/model/model.h."""
    manifest = json.load(open(os.path.join(folder, "manifest.json"), encoding="utf-8"))
    values, filled = {}, {}
    for p in manifest["parameters"]:
        shape = p["shape"] if p["kind"] == "dense" else [p["n_rows"], p["dim"]]
        values[p["name"]] = np.full(shape, np.nan, np.float32)
    for part in manifest["parts"]:
        data = open(os.path.join(folder, part["file"]), "rb").read()
        magic, version, _, n, _, size = struct.unpack_from("<8sIIIIQ", data, 0)
        if magic != b"PDMODEL1" or version != 1 or size != len(data) or size != part["bytes"]:
            raise SystemExit(f"{folder}/{part['file']}: not a part of a model")
        for i in range(n):
            at = 64 + 192 * i
            name = data[at:at + 128].split(b"\0")[0].decode()
            kind, dim, first, count, keys_at, values_at = struct.unpack_from("<IIQQQQ", data, at + 128)
            v = np.frombuffer(data, "<f4", count * dim, values_at)
            if kind == 1:
                values[name].reshape(-1)[first:first + count] = v
            else:
                values[name][np.frombuffer(data, "<u8", count, keys_at)] = v.reshape(count, dim)
    for name, v in values.items():
        if np.isnan(v).any():
            raise SystemExit(f"{folder}: parameter {name} is incomplete")
    return {name: v.astype(np.float64) for name, v in values.items()}


def samples_of(paths, start, end, width):
    for path in paths:
        for line in open(path, encoding="ascii"):
            words = line.split()
            if not words:
                continue
            ids = [start] + [int(w) for w in words] + [end]
            for i in range(width, len(ids) + 1):
                yield ids[i - width:i]


def batches(folder, n_streams, batch, start, end, width):
    """Yields arrays [samples, width] until every stream has ended."""
    names = sorted((n for n in os.listdir(folder) if not n.startswith(".")), key=os.fsencode)
    paths = [os.path.join(folder, n) for n in names]
    streams = [samples_of(paths[s::n_streams], start, end, width) for s in range(n_streams)]
    while True:
        rows = []
        for s, stream in enumerate(streams):
            share = (s + 1) * batch // n_streams - s * batch // n_streams
            rows += [row for _, row in zip(range(share), stream)]
        if not rows:
            return
        yield np.array(rows, np.int64)


ACTS = {  # value from x, derivative from the value
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y)),
    "tanh": (np.tanh, lambda y: 1 - y * y),
    "relu": (lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(y.dtype)),
}


def forward_backward(p, ids, act):
    """Returns the mean cost and {name: gradient of the mean cost}."""
    value, derivative = ACTS[act]
    n, context = len(ids), ids[:, :-1]
    x = p["emb"][context].reshape(n, -1)
    h = value(x @ p["hidden.w"] + p["hidden.b"])
    z = h @ p["predict.w"] + p["predict.b"]
    top = z.max(axis=1)
    e = np.exp(z - top[:, None])
    total = e.sum(axis=1)
    cost = np.mean(np.log(total) + top - z[np.arange(n), ids[:, -1]])
    dz = e / total[:, None]
    dz[np.arange(n), ids[:, -1]] -= 1
    dz /= n
    dh = (dz @ p["predict.w"].T) * derivative(h)
    dx = dh @ p["hidden.w"].T
    demb = np.zeros_like(p["emb"])
    np.add.at(demb, context.reshape(-1), dx.reshape(context.size, -1))
    return cost, {"emb": demb, "hidden.w": x.T @ dh, "hidden.b": dh.sum(axis=0),
                  "predict.w": h.T @ dz, "predict.b": dz.sum(axis=0)}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--model", required=True, help="folder of the initial model")
    a.add_argument("--data", required=True, help="folder of the training files")
    a.add_argument("--dict", required=True, help="dict.txt, for the ids of <s> and <e>")
    a.add_argument("--streams", type=int, default=1)
    a.add_argument("--batch", type=int, default=384, help="samples of a step, over all streams")
    a.add_argument("--batches", type=int, default=50)
    a.add_argument("--test", help="folder of held-out files: print their perplexity after the batches as \"test P\"")
    a.add_argument("--act", default="sigmoid", choices=sorted(ACTS))
    a.add_argument("--learning_rate", type=float, default=3e-2)
    a.add_argument("--epsilon", type=float, default=1e-6)
    a.add_argument("--l2", type=float, default=0)
    o = a.parse_args()

    words = open(o.dict, encoding="utf-8").read().split("\n")
    start, end = words.index("<s>"), words.index("<e>")
    p = read_model(o.model)
    width = p["hidden.w"].shape[0] // p["emb"].shape[1] + 1
    squares = {name: np.zeros_like(v) for name, v in p.items()}
    data = batches(o.data, o.streams, o.batch, start, end, width)
    for step, ids in zip(range(o.batches), data):
        cost, gradients = forward_backward(p, ids, o.act)
        print(f"{step + 1} {cost:.10g}", flush=True)
        for name, g in gradients.items():
            touched = np.unique(ids[:, :-1]) if name == "emb" else slice(None)
            g = g[touched] + (0 if name.endswith(".b") else o.l2) * p[name][touched]
            squares[name][touched] += g * g
            p[name][touched] -= o.learning_rate * g / (np.sqrt(squares[name][touched]) + o.epsilon)
    if o.test:
        total = n = 0
        for ids in batches(o.test, o.streams, o.batch, start, end, width):
            total += forward_backward(p, ids, o.act)[0] * len(ids)
            n += len(ids)
        print(f"test {np.exp(total / n):.6f}")


main()
