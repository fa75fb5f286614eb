#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""models.py - the networks of the benches models and models_job: train.ini and data of each, made up from a fixed seed.

usage: models.py NAME FOLDER [STEPS]

FOLDER gets train.ini, the data as two streams (a half of each batch comes from each, so that two trainers read what one reads),
and data.npz, the same samples as arrays for PyTorch, which gets them for nothing: a dictionary per stream, rows in the order of the files."""
import os
import struct
import sys

import numpy as np

STREAMS = 2
VOCABULARY = 10000      # of the n-gram
ROWS, COUNTS, IDS = 10000, 13, 26  # of click logs: rows of each of the 26 categories, in one table


def layers(*rows):
    return "".join("[layer %s]\ntype = %s\ninputs = %s\n%s\n" % (n, t, i, "".join(o + "\n" for o in rest)) for n, t, i, *rest in rows)


def tail(cost, layer, optimizer, rate):
    return "[cost cost]\ntype = %s\ninput = %s\nlabel = y\n\n[optimizer]\ntype = %s\nlearning_rate = %g\n" % (cost, layer, optimizer, rate)


# --- data: {name: array} of n samples ---

def words(r, n):
    """Frequent words first, as in text; the word that follows depends on those before it more often than not."""
    x = np.minimum((r.pareto(0.8, (n, 4)) * 3).astype(np.int64), VOCABULARY - 1)
    y = np.where(r.random(n) < 0.6, (3 * x[:, 3] + x[:, 0]) % VOCABULARY, np.minimum((r.pareto(0.8, n) * 3).astype(np.int64), VOCABULARY - 1))
    return {"x": x, "y": y}


def clicks(r, n):
    ids = (r.random((n, IDS)) ** 3 * ROWS).astype(np.int64)
    x = np.round(r.standard_normal((n, COUNTS)), 3).astype(np.float32)
    w = np.random.default_rng(7)
    odds = (w.standard_normal((IDS, ROWS))[np.arange(IDS), ids] * 0.4).sum(1) + x @ w.standard_normal(COUNTS) * 0.3 - 1
    return {"ids": ids + np.arange(IDS) * ROWS, "x": x, "y": (r.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)}


def images(r, n):
    strokes = np.random.default_rng(7).random((10, 784)) < 0.15
    y = r.integers(0, 10, n)
    shown = strokes[y] & (r.random((n, 784)) < 0.7) | (r.random((n, 784)) < 0.1)
    return {"x": (shown * r.integers(60, 256, (n, 784))).astype(np.uint8), "y": y}


# --- files ---

def write_ids(path, d):
    with open(path, "w") as f:
        f.writelines("%d %d %d %d %d\n" % (*x, y) for x, y in zip(d["x"].tolist(), d["y"].tolist()))


def write_clicks(path, d):
    with open(path, "w") as f:
        for ids, x, y in zip(d["ids"].tolist(), d["x"].tolist(), d["y"].tolist()):
            f.write("%d\t%s\t%s\n" % (y, "\t".join(["%.3f" % v for v in x]), "\t".join(map(str, ids))))


def write_idx(path, d):
    n = len(d["y"])
    with open(path + "-images", "wb") as f:
        f.write(struct.pack(">4I", 2051, n, 28, 28) + d["x"].tobytes())
    with open(path + "-labels", "wb") as f:
        f.write(struct.pack(">2I", 2049, n) + d["y"].astype(np.uint8).tobytes())


# --- networks ---

def ngram():
    ini = "[data]\nformat = ids\ntrain = train-*\nfields = w1 w2 w3 w4 y\nvocabulary = %d\n\n" % VOCABULARY
    ini += layers(("e", "embedding", "w1 w2 w3 w4", "size = 64", "sparse_update = true"), ("h", "fc", "e", "size = 128", "act = tanh"),
                  ("p", "fc", "h", "size = vocabulary", "act = softmax"))
    return ini + tail("cross_entropy", "p", "adagrad", 0.03)


def click_data():
    counts, ids = ["x%d" % k for k in range(COUNTS)], ["c%d" % k for k in range(IDS)]
    ini = "[data]\nformat = tsv\ntrain = train-*\ncolumns = y %s %s\nfields = x:dense %s y:label\n\n" % (
        " ".join(counts), " ".join(ids), " ".join(c + ":id" for c in ids))
    ini += "[field x]\ncolumns = %s\n\n" % " ".join(counts) + "".join("[field %s]\nvocabulary = %d\n" % (c, IDS * ROWS) for c in ids)
    return ini, " ".join(ids)


def ctr_dnn():
    ini, ids = click_data()
    ini += layers(("e", "embedding", ids, "size = 10", "init_std = 0.1", "sparse_update = true"), ("in", "concat", "e x"),
                  ("h1", "fc", "in", "size = 512", "act = relu"), ("h2", "fc", "h1", "size = 256", "act = relu"),
                  ("h3", "fc", "h2", "size = 128", "act = relu"), ("h4", "fc", "h3", "size = 32", "act = relu"), ("p", "fc", "h4", "size = 1", "act = sigmoid"))
    return ini + tail("binary_cross_entropy", "p", "adagrad", 0.01)


def wide_deep():
    ini, ids = click_data()
    ini += layers(("wide", "embedding", ids, "size = 1", "combine = sum", "init_std = 0", "sparse_update = true"),
                  ("e", "embedding", ids, "size = 10", "init_std = 0.1", "sparse_update = true"), ("in", "concat", "e x"),
                  ("h1", "fc", "in", "size = 400", "act = relu"), ("h2", "fc", "h1", "size = 400", "act = relu"),
                  ("h3", "fc", "h2", "size = 400", "act = relu"), ("deep", "fc", "h3", "size = 1"), ("p", "addto", "wide deep", "act = sigmoid"))
    return ini + tail("binary_cross_entropy", "p", "adagrad", 0.01)


def mlp():
    ini = "[data]\nformat = idx\ntrain = train-*images\nfields = x:dense y:label\n\n[field x]\nsize = 784\n\n[field y]\nvocabulary = 10\n\n"
    ini += layers(("h1", "fc", "x", "size = 512", "act = relu"), ("h2", "fc", "h1", "size = 512", "act = relu"), ("p", "fc", "h2", "size = 10", "act = softmax"))
    return ini + tail("cross_entropy", "p", "adam", 0.001)


#         batch, steps of a pass, network, data, file
MODELS = {
    "ngram": (128, 300, ngram, words, write_ids),
    "ctr_dnn": (512, 160, ctr_dnn, clicks, write_clicks),
    "wide_deep": (1000, 80, wide_deep, clicks, write_clicks),
    "mlp": (128, 400, mlp, images, write_idx),
}


def write(name, folder, steps=0):
    batch, default, network, data, file = MODELS[name]
    os.makedirs(folder, exist_ok=True)
    arrays = {}
    for s in range(STREAMS):
        d = data(np.random.default_rng([1, s]), batch // STREAMS * (steps or default))
        file(os.path.join(folder, "train-%05d" % s), d)
        arrays.update({"%s%d" % (k, s): v for k, v in d.items()})
    with open(os.path.join(folder, "train.ini"), "w") as f:
        f.write(network() + "\n[train]\nbatch_size = %d\nn_streams = %d\nlog_period = 20\n" % (batch, STREAMS))
    np.savez(os.path.join(folder, "data.npz"), **arrays)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
