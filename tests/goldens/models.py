# SPDX-License-Identifier: Apache-2.0
"""The models of the goldens: data and train.ini of each, made up from a fixed seed with the standard library alone.

`models.py OUT` writes OUT/NAME/train.ini and OUT/NAME/train-0000k for every model; compare.py and make.py import the rest.
Three files, so that one trainer and three compute the same batches: each takes a third of every batch from each file."""
import os
import random
import sys

BATCHES, BATCH, STREAMS = 50, 30, 3


def layers(*rows):
    return "".join("[layer %s]\ntype = %s\ninputs = %s\n%s\n" % (n, t, i, "".join(o + "\n" for o in rest)) for n, t, i, *rest in rows)


def numbers(name, n):
    return ["%s%d" % (name, i) for i in range(n)]


def csv(columns, fields):
    head = "[data]\nformat = csv\ntrain = train-*\ntest = train-*\ncolumns = %s\nfields = %s\n" % (" ".join(columns), " ".join(f + ":" + k for f, k, _ in fields))
    return head + "".join("[field %s]\n%s\n" % (f, rest) for f, _, rest in fields if rest)


def optimizer(kind, rate, *rest):
    return "[optimizer]\ntype = %s\nlearning_rate = %g\n%s" % (kind, rate, "".join(r + "\n" for r in rest))


V, CLICK = 60, [("x", "dense", "columns = x0 x1 x2 x3"), ("a", "id", "vocabulary = 40"), ("b", "id", "vocabulary = 40"),
                ("c", "id", "vocabulary = 40"), ("y", "id", "vocabulary = 2")]
CLICK_COLUMNS = numbers("x", 4) + ["a", "b", "c", "y"]
PAIRS_COLUMNS = numbers("x", 4) + ["a", "b", "c", "l", "y"]


def ngram():
    ini = "[data]\nformat = ids\ntrain = train-*\ntest = train-*\nfields = w1 w2 w3 w4 t\nvocabulary = %d\n" % V
    ini += layers(("e", "embedding", "w1 w2 w3 w4", "size = 8", "init_std = 0.2", "sparse_update = true"),
                  ("h", "fc", "e", "size = 24", "act = tanh"), ("p", "fc", "h", "size = vocabulary", "act = softmax"))
    return ini + "[cost c]\ntype = cross_entropy\ninput = p\nlabel = t\n" + optimizer("adagrad", 0.05)


def mlp():
    ini = csv(numbers("x", 20) + ["y"], [("x", "dense", "columns = " + " ".join(numbers("x", 20))), ("y", "id", "vocabulary = 5")])
    ini += layers(("h1", "fc", "x", "size = 32", "act = relu"), ("h2", "fc", "h1", "size = 16", "act = relu"), ("p", "fc", "h2", "size = 5", "act = softmax"))
    return ini + "[cost c]\ntype = cross_entropy\ninput = p\nlabel = y\n" + optimizer("adam", 0.01)


def wide_deep():
    ini = csv(CLICK_COLUMNS, CLICK)
    ini += layers(("wide", "embedding", "a b c", "size = 1", "combine = sum", "sparse_update = true", "init_std = 0.1"),
                  ("e", "embedding", "a b c", "size = 6", "sparse_update = true", "init_std = 0.3"),
                  ("h1", "fc", "e x", "size = 24", "act = relu"), ("h2", "fc", "h1", "size = 12", "act = relu"), ("deep", "fc", "h2", "size = 1"),
                  ("p", "addto", "wide deep", "act = sigmoid"))
    return ini + "[cost c]\ntype = binary_cross_entropy\ninput = p\nlabel = y\n" + optimizer("adagrad", 0.05)


def deepfm():
    ini = csv(CLICK_COLUMNS, CLICK)
    ini += layers(("first", "embedding", "a b c", "size = 1", "combine = sum", "sparse_update = true", "init_std = 0.1"),
                  ("e", "embedding", "a b c", "size = 6", "sparse_update = true", "init_std = 0.3"), ("fm", "fm", "e", "dim = 6"),
                  ("h1", "fc", "e x", "size = 16", "act = relu"), ("deep", "fc", "h1", "size = 1"),
                  ("p", "addto", "first fm deep", "act = sigmoid"))
    return ini + "[cost c]\ntype = binary_cross_entropy\ninput = p\nlabel = y\n" + optimizer("sgd", 0.3)


def lenet():
    ini = csv(numbers("x", 144) + ["y"], [("x", "dense", "columns = " + " ".join(numbers("x", 144))), ("y", "id", "vocabulary = 4")])
    ini += layers(("c1", "conv", "x", "height = 12", "width = 12", "filter = 3", "size = 4", "act = relu"), ("p1", "pool", "c1", "filter = 2"),
                  ("c2", "conv", "p1", "filter = 3", "padding = 1", "size = 6", "act = relu"), ("p2", "pool", "c2", "filter = 2", "stride = 2"),
                  ("h", "fc", "p2", "size = 20", "act = relu"), ("p", "fc", "h", "size = 4", "act = softmax"))
    return ini + "[cost c]\ntype = cross_entropy\ninput = p\nlabel = y\n" + optimizer("momentum", 0.03, "momentum = 0.9")


def line():
    ini = csv(numbers("x", 6) + ["y"], [("x", "dense", "columns = " + " ".join(numbers("x", 6))), ("y", "dense", "")])
    ini += layers(("p", "fc", "x", "size = 1", "init_std = 0.3"))
    return ini + "[cost c]\ntype = square_error\ninput = p\nlabel = y\n" + optimizer("momentum", 0.01, "momentum = 0.9")


def towers():
    """The recommendation template: rows of ids and means of lists into two towers, and their cosine."""
    ini = csv(["u", "age", "m", "g", "w", "y"], [("u", "id", "vocabulary = 20"), ("age", "id", "vocabulary = 5"), ("m", "id", "vocabulary = 30"),
                                                 ("g", "list", "vocabulary = 8"), ("w", "list", "vocabulary = 50"), ("y", "dense", "")])
    table = lambda name, field, size, *rest: (name, "embedding", field, "size = %d" % size, "sparse_update = true", "init_std = 0.3") + rest
    ini += layers(table("eu", "u", 6), table("ea", "age", 4), ("ut", "fc", "eu ea", "size = 8", "act = tanh"),
                  table("em", "m", 6), table("eg", "g", 4, "pooling = mean"), table("ew", "w", 4, "pooling = mean"),
                  ("mt", "fc", "em eg ew", "size = 8", "act = tanh"), ("match", "cos_sim", "ut mt", "scale = 0.6"),
                  ("level", "fc", "eg ea", "size = 1", "lr_factor = 3"), table("kind", "u", 1), table("good", "m", 1, "lr_factor = 2"),
                  ("p", "addto", "match level kind good"))
    return ini + "[cost c]\ntype = square_error\ninput = p\nlabel = y\n" + optimizer("adagrad", 0.04)


def batch_norm():
    """Of channels and of values. Under reproducible = topology a batch is a stream's share, whoever computes it."""
    ini = csv(numbers("x", 36) + ["y"], [("x", "dense", "columns = " + " ".join(numbers("x", 36))), ("y", "id", "vocabulary = 4")])
    ini += layers(("c", "conv", "x", "height = 6", "width = 6", "filter = 3", "size = 3"), ("n1", "batch_norm", "c", "act = relu"),
                  ("h", "fc", "n1", "size = 16"), ("n2", "batch_norm", "h", "act = tanh", "momentum = 0.8"), ("p", "fc", "n2", "size = 4", "act = softmax"))
    return ini + "[cost c]\ntype = cross_entropy\ninput = p\nlabel = y\n" + optimizer("sgd", 0.3) + "[train]\nreproducible = topology\n"


def dcn():
    """Cross layers of each kind in a row, and a network above them."""
    ini = csv(CLICK_COLUMNS, CLICK)
    ini += layers(("e", "embedding", "a b c", "size = 6", "sparse_update = true", "init_std = 0.3"), ("all", "concat", "e x"),
                  ("c1", "cross", "all all"), ("c2", "cross", "all c1", "rank = 5"), ("c3", "cross", "all c2", "kind = vector"),
                  ("h", "fc", "c3", "size = 16", "act = relu"), ("p", "fc", "h", "size = 1", "act = sigmoid"))
    return ini + "[cost c]\ntype = binary_cross_entropy\ninput = p\nlabel = y\n" + optimizer("adagrad", 0.05)


def pairs():
    """DLRM's dot products and NFM's bi-interaction, over vectors and inside a list, whose pairs are also a number, as in an FM."""
    ini = csv(PAIRS_COLUMNS, CLICK[:-1] + [("l", "list", "vocabulary = 30")] + CLICK[-1:])
    table = lambda name, field, size, *rest: (name, "embedding", field, "size = %d" % size, "sparse_update = true", "init_std = 0.3") + rest
    ini += layers(table("e", "a b c", 6), ("bottom", "fc", "x", "size = 6", "act = tanh"), ("dots", "dot_interaction", "bottom e", "dim = 6"),
                  ("nfm", "bi_interaction", "e bottom", "dim = 6"), table("tags", "l", 4, "pooling = bi_interaction"),
                  ("h", "fc", "bottom dots nfm tags", "size = 16", "act = relu"), ("deep", "fc", "h", "size = 1"),
                  table("fm", "l", 5, "pooling = fm"), ("p", "addto", "deep fm", "act = sigmoid"))
    return ini + "[cost c]\ntype = binary_cross_entropy\ninput = p\nlabel = y\n" + optimizer("adagrad", 0.05)


MODELS = {f.__name__: f for f in (ngram, mlp, wide_deep, deepfm, lenet, line, towers, batch_norm, dcn, pairs)}
IMAGES = {"mlp": (20, 5), "lenet": (144, 4), "batch_norm": (36, 4)}  # numbers, classes


def sample(name, r):
    """The words of a line, a list for a list; labels depend on what is before them, so that there is something to learn."""
    if name == "line":
        x = [round(r.gauss(0, 1), 4) for _ in range(6)]
        return x + [round(3 * x[0] - 2 * x[3] + x[5] + 4 + r.gauss(0, 0.3), 4)]
    if name == "towers":
        u, age, m = r.randrange(20), r.randrange(5), r.randrange(30)
        genres, words = [r.randrange(8) for _ in range(r.randrange(1, 4))], [r.randrange(50) for _ in range(r.randrange(0, 5))]
        return [u, age, m, genres, words, round((u % 5 + m % 4 + (age + genres[0]) % 3) / 4 + r.gauss(0, 0.2), 3)]
    if name == "ngram":
        w = [min(int(r.expovariate(0.1)), V - 1) for _ in range(4)]
        return w + [(w[0] + 2 * w[3]) % V if r.random() < 0.7 else r.randrange(V)]
    if name in IMAGES:
        n, classes = IMAGES[name]
        x = [round(r.gauss(0, 1), 4) for _ in range(n)]
        return x + [max(range(classes), key=lambda k: sum(x[k::classes]))]
    x, ids = [round(r.gauss(0, 1), 4) for _ in range(4)], [r.randrange(40) for _ in range(3)]
    z = x[0] - x[1] + (ids[0] % 3 - 1) + (ids[1] % 2) * (ids[2] % 2) * 2 - 0.5
    tags = [[r.randrange(30) for _ in range(r.randrange(0, 5))]] if name == "pairs" else []
    for words in tags:
        z += 2 * (len({w % 3 for w in words}) == 2) - 1
    return x + ids + tags + [int(z + r.gauss(0, 0.5) > 0)]


def data(name):
    """By stream the lines, BATCHES * BATCH / STREAMS each."""
    r = random.Random("golden " + name)
    return [[sample(name, r) for _ in range(BATCHES * BATCH // STREAMS)] for _ in range(STREAMS)]


def write(out):
    for name, ini in MODELS.items():
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "train.ini"), "w") as f:
            f.write(ini())
        for k, lines in enumerate(data(name)):
            with open(os.path.join(folder, "train-%05d" % k), "w") as f:
                f.writelines((" " if name == "ngram" else ",").join("|".join(map(str, w)) if isinstance(w, list) else str(w) for w in line) + "\n" for line in lines)


if __name__ == "__main__":
    write(sys.argv[1])
