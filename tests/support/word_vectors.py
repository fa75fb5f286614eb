#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures word vectors, with its own readers of word2vec's text and binary formats.

  word_vectors.py loss IN OUT COUNTS TEXT...   mean loss of negative sampling over the pairs of
                                               held-out text
  word_vectors.py relations IN DICT COUNTS     how well cosines separate related words of WordNet
                                               from others
  word_vectors.py neighbours IN DICT WORD...   the ten nearest words of each word
  word_vectors.py same A B                     checks for the same words and, to 6 digits, the same
                                               vectors

IN and OUT are files of vectors. Their words are line numbers of DICT and COUNTS, or (IN) words of
DICT. TEXT: sentences of ids.

loss: a pair at distance d has the weight (window + 1 - d) / window, which is the share of the
windows of 1 to `window` that contain it. The weight is multiplied by the probabilities that both
words stay when frequent words are dropped. The loss of a pair is softplus(-in.out) + 5 E
softplus(in.n), where n has a probability proportional to count^0.75. The mean uses 2000 equally
likely n, the same for all pairs and all models.

relations: pairs of words of one synset, and of a word and one of its hypernyms, both seen at least
20 times. Each is compared with a pair of the first word and a random word of a frequency near the
second word's (within 2 % of the ranks). AUC is the share of comparisons in which the related pair
has the larger cosine.
"""
import os
import sys

import numpy as np

WINDOW, NEGATIVE, SAMPLE, DRAWN = 5, 5, 1e-3, 2000


def read_vectors(path):
    """Returns the words, and a row for each."""
    with open(path, "rb") as f:
        n, dim = map(int, f.readline().split())
        start = f.tell()
        data = f.read()
    words, rows = [], np.zeros((n, dim), np.float32)
    at = 0
    try:  # the text format: every line is a word and its numbers
        first = data[: data.index(b"\n")].split()
        text = len(first) == dim + 1 and all(float(x) == float(x) for x in first[1:])
    except ValueError:
        text = False
    for i in range(n):
        end = data.index(b" ", at)
        words.append(data[at:end].strip(b"\n").decode())
        if text:
            at = data.index(b"\n", end) + 1
            rows[i] = [float(x) for x in data[end:at].split()]
        else:
            rows[i] = np.frombuffer(data, "<f4", dim, end + 1)
            at = end + 1 + 4 * dim
    assert not data[at:].strip(b"\n"), f"{path}: {len(data) - at} bytes behind the last vector, from {start + at} on"
    return words, rows


def by_id(path, dictionary=None, n=None):
    """Returns rows by number; words without a vector have zeros."""
    words, rows = read_vectors(path)
    numbers = all(w.isdigit() for w in words)
    ids = {w: i for i, w in enumerate(dictionary or [])}
    out = np.zeros((n or len(ids), rows.shape[1]), np.float32)
    for w, r in zip(words, rows):
        out[int(w) if numbers else ids[w]] = r
    return out


def softplus(x):
    return np.logaddexp(0, x)


def loss(in_path, out_path, counts_path, texts):
    count = np.loadtxt(counts_path)
    rows_in, rows_out = by_id(in_path, n=len(count)), by_id(out_path, n=len(count))
    f = np.maximum(count, 1e-9) / count.sum() / SAMPLE
    keep = np.minimum(1, (np.sqrt(f) + 1) / f)
    weight = np.cumsum(count**0.75) / np.sum(count**0.75)
    drawn = rows_out[np.searchsorted(weight, (np.arange(DRAWN) + 0.5) / DRAWN)]
    near, word, w = [], [], []
    for t in texts:
        for line in open(t):
            s = np.array(line.split(), int)
            for d in range(1, WINDOW + 1):
                if len(s) > d:
                    for a, b in ((s[:-d], s[d:]), (s[d:], s[:-d])):
                        near.append(a)
                        word.append(b)
                        w.append(keep[a] * keep[b] * (WINDOW + 1 - d) / WINDOW)
    near, word, w = map(np.concatenate, (near, word, w))
    seen, first = np.unique(near, return_inverse=True)
    negative = np.concatenate([softplus(rows_in[p] @ drawn.T).mean(1) for p in np.array_split(seen, 20)])
    positive = np.concatenate([softplus(-np.einsum("ij,ij->i", rows_in[a], rows_out[b])) for a, b in
                               zip(np.array_split(near, 50), np.array_split(word, 50))])
    print("loss %.5f pairs %d" % (np.average(positive + NEGATIVE * negative[first], weights=w), len(w)))


def wordnet():
    """Returns pairs of related words, each once."""
    folder = os.environ.get("WORDNET", "/usr/share/wordnet")
    pairs = set()
    for part in "noun", "verb", "adj", "adv":
        members, above = {}, {}
        for line in open(f"{folder}/data.{part}", encoding="latin-1"):
            if line.startswith(" "):
                continue
            x = line.split(" | ")[0].split()
            n = int(x[3], 16)
            members[x[0]] = [w.split("(")[0].lower() for w in x[4 : 4 + 2 * n : 2]]
            p = x[5 + 2 * n :]
            above[x[0]] = [p[i + 1] for i in range(0, 4 * int(x[4 + 2 * n]), 4) if p[i] in ("@", "@i") and p[i + 2] == x[2].replace("s", "a")]
        for s, words in members.items():
            for a in words:
                for b in words + [b for h in above[s] for b in members.get(h, [])]:
                    if a != b:
                        pairs.add((a, b))
    return sorted(pairs)


def relations(in_path, dict_path, counts_path):
    words = open(dict_path).read().split("\n")[:-1]
    count = np.loadtxt(counts_path)
    rows = by_id(in_path, words)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    known = np.flatnonzero(count >= 20)
    rank = {words[i]: r for r, i in enumerate(known)}
    rng = np.random.default_rng(1)
    reach = max(1, len(known) // 50)
    won, related, others = [], [], []
    pairs = [(rank[a], rank[b]) for a, b in wordnet() if a in rank and b in rank]
    together = set(pairs)
    for a, b in pairs:
        c = b
        while c in (a, b) or (a, c) in together or not 0 <= c < len(known):
            c = b + int(rng.integers(-reach, reach + 1))
        x, y = rows[known[a]] @ rows[known[b]], rows[known[a]] @ rows[known[c]]
        won.append((x > y) + 0.5 * (x == y))
        related.append(x)
        others.append(y)
    print("auc %.5f related %.5f others %.5f pairs %d" % (np.mean(won), np.mean(related), np.mean(others), len(pairs)))


def neighbours(in_path, dict_path, *wanted):
    words = open(dict_path).read().split("\n")[:-1]
    rows = by_id(in_path, words)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    for w in wanted:
        nearest = np.argsort(-(rows @ rows[words.index(w)]))
        print(w + ":", " ".join([words[i] for i in nearest if words[i] != w][:10]))


def same(a_path, b_path):
    (a, x), (b, y) = read_vectors(a_path), read_vectors(b_path)
    assert a == b, "other words"
    assert x.shape == y.shape and np.allclose(x, y, rtol=1e-6, atol=1e-9), f"other vectors, by up to {np.abs(x - y).max()}"
    print("same %d x %d" % x.shape)


if __name__ == "__main__":
    command, *args = sys.argv[1:]
    {"loss": lambda: loss(*args[:3], args[3:]), "relations": lambda: relations(*args), "neighbours": lambda: neighbours(*args),
     "same": lambda: same(*args)}[command]()
