#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perplexity.py BIN OUT - remakes OUT/wordnet.perplexity (`make goldens`): what the word2vec template's network reaches in PyTorch on
held-out glosses of WordNet.

The initial values are ours, exported as npz. Two passes as a trainer with three streams does them: a batch takes its share of each of the
three files, until each is at its end. One line: the perplexity, and of what it is one: words of the dictionary, samples learned from,
samples held out."""
import glob
import math
import os
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch

F = torch.nn.functional
HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, PASSES = 384, 2  # train.ini
PREPARE = ["--shards=3", "--share=0.1", "--min_word_freq=20", "--holdout=20"]  # tests/integration/train/quality.sh


def streams(folder, words):
    def windows(path):
        lines = ([words["<s>"]] + [int(x) for x in line.split()] + [words["<e>"]] for line in open(path))
        return [s[i - 5:i] for s in lines for i in range(5, len(s) + 1)]
    return [torch.tensor(windows(f)) for f in sorted(glob.glob(folder + "/*"))]


def initial(binary, folder):
    subprocess.run([binary + "/paddle_worker", "trainer", "--local=1", "--save_initial=1", "--save_dir=model", "--num_passes=1"],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([binary + "/paddlectl", "export", "--model=%s/model/pass-init" % folder, "--out=%s/init.npz" % folder], check=True,
                   stdout=subprocess.DEVNULL)
    return {k: torch.from_numpy(v.copy()).requires_grad_() for k, v in numpy.load(folder + "/init.npz").items() if not k.endswith(".ids")}


def cost(p, x):
    h = torch.sigmoid(p["emb"][x[:, :4]].flatten(1) @ p["hidden.w"] + p["hidden.b"])
    return F.cross_entropy(h @ p["predict.w"] + p["predict.b"], x[:, 4])


def perplexity(binary, folder):
    words = {w: i for i, w in enumerate(open(folder + "/dict.txt").read().split())}
    train, test = streams(folder + "/train_data_dir", words), torch.cat(streams(folder + "/test_data_dir", words))
    p = initial(binary, folder)
    step, share = torch.optim.Adagrad(p.values(), lr=0.03, eps=1e-6), BATCH // len(train)
    for _ in range(PASSES):
        for k in range(0, max(map(len, train)), share):
            step.zero_grad()
            cost(p, torch.cat([s[k:k + share] for s in train])).backward()
            step.step()
    with torch.no_grad():
        total = sum(float(cost(p, x)) * len(x) for x in test.split(4096))
    return math.exp(total / len(test)), len(words), sum(map(len, train)), len(test)


def main():
    binary, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as tmp:
        shutil.copytree(os.path.join(HERE, "../../workspace_template/word2vec"), tmp + "/ws")
        subprocess.run(["sh", tmp + "/ws/prepare"] + PREPARE, env=dict(os.environ, PADDLECTL=binary + "/paddlectl"), check=True, stdout=subprocess.DEVNULL)
        text = "%.4f words %d samples %d held out %d\n" % perplexity(binary, tmp + "/ws")
    with open(os.path.join(out, "wordnet.perplexity"), "w") as f:
        f.write(text)


main()
