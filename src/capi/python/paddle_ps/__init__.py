# SPDX-License-Identifier: Apache-2.0
"""paddle_ps - a Python program as a trainer of a paddlectl job. The parameter servers hold its
parameters.

It needs ctypes and numpy; copy this folder, with libpaddle_ps.so.1 in it, into your workspace. The
methods are the functions of paddle_ps.h, which documents them (gradients are SUMS over the samples of the
step):

    ps = paddle_ps.join("optimizer=adagrad optimizer.learning_rate=0.05")
    w = ps.dense("w", (64, 32), std=0.1)
    words = ps.table("words", 32, std=0.01)
    ps.start()
    for batch in data:
        W = ps.pull_dense(w)                    # numpy arrays; complete after ps.wait()
        rows = ps.pull_rows(words, ids)         # one row for each id: any order, any shape, repeated ids too
        ps.wait()
        ...
        ps.push_dense(w, dW)
        ps.push_rows(words, ids, drows)
        ps.step_end(len(batch), [cost])
        for step, n, (cost,) in ps.step_sums(1):
            print(step, cost / n)
    ps.pass_end()
    ps.leave()

Every failure raises paddle_ps.Error. The job has then failed, and the other trainers learn of it.
"""
import ctypes
import os

import numpy as np

VERSION = 2
_u64p, _f32p, _f64p, _u32p = (ctypes.POINTER(t) for t in (ctypes.c_uint64, ctypes.c_float, ctypes.c_double, ctypes.c_uint32))


class Error(RuntimeError):
    """code: an error code of paddle_ps.h; the text explains the error."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def _library():
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.environ.get("PADDLE_PS_LIBRARY"), os.path.join(here, "libpaddle_ps.so.1"), "libpaddle_ps.so.1"]
    for place in places:
        if place and (os.sep not in place or os.path.exists(place)):
            break
    lib = ctypes.CDLL(place)
    P, I, S, U, Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t
    for name, result, args in [
        ("join", P, [S, S, Z]), ("free", None, [P]), ("error", S, [P]), ("version", I, []), ("trainer_id", I, [P]),
        ("n_trainers", I, [P]), ("step", U, [P]), ("dense", I, [P, S, ctypes.c_uint, _u64p, S]),
        ("table", I, [P, S, ctypes.c_uint32, U, S]), ("start", I, [P]), ("pull_dense", I, [P, I, _f32p]),
        ("pull_rows", I, [P, I, Z, _u64p, _f32p, I]), ("wait", I, [P]), ("push_dense", I, [P, I, _f32p]),
        ("push_rows", I, [P, I, Z, _u64p, _f32p]), ("push_seen_rows", I, [P, I, Z, _u64p, _f32p, _u32p]),
        ("day_end", I, [P, _u64p, _u64p, _u64p]), ("step_end", I, [P, U, _f64p, Z]),
        ("step_sums", I, [P, _u64p, _u64p, _f64p, Z]), ("pass_end", I, [P]), ("reduce", I, [P, _f64p, Z]), ("barrier", I, [P]),
        ("save", I, [P, S, S]), ("load", I, [P, S, S]), ("leave", I, [P]),
    ]:
        f = getattr(lib, "paddle_ps_" + name)
        f.restype, f.argtypes = result, args
    if lib.paddle_ps_version() < VERSION:
        raise ImportError("%s is older than this module" % place)
    return lib


def _pointer(array, kind):
    return array.ctypes.data_as(kind)


def _attributes(attributes):
    return " ".join("%s=%.17g" % item for item in sorted(attributes.items())).encode()


def join(settings=None):
    """Joins the job as a trainer. settings: as in paddle_ps.h ("optimizer=adagrad seed=7 local=1");
    other settings come from the environment."""
    return Client(settings)


class Client:
    def __init__(self, settings=None):
        self._lib = _library()
        why = ctypes.create_string_buffer(1000)
        self._ps = self._lib.paddle_ps_join(settings.encode() if settings is not None else None, why, len(why))
        if not self._ps:
            raise Error(-10, why.value.decode(errors="replace"))
        self._shape, self._dim = [], []
        self._held = []  # arrays that the library reads or writes until the next wait

    def _call(self, name, *args):
        if not self._ps:
            raise Error(-9, "this trainer has left the job")
        rc = getattr(self._lib, "paddle_ps_" + name)(self._ps, *args)
        if rc < 0:
            raise Error(rc, self._lib.paddle_ps_error(self._ps).decode(errors="replace"))
        return rc

    @property
    def trainer_id(self):
        return self._call("trainer_id")

    @property
    def n_trainers(self):
        return self._call("n_trainers")

    @property
    def step(self):
        return self._lib.paddle_ps_step(self._ps)

    def dense(self, name, shape, **attributes):
        """Declares a parameter; attributes: mean, std, lr, l1, l2. Returns its id."""
        shape = np.atleast_1d(np.asarray(shape, np.uint64))
        n = self._call("dense", name.encode(), len(shape), _pointer(shape, _u64p), _attributes(attributes))
        self._shape.append(tuple(int(k) for k in shape))
        return n

    def table(self, name, dim, n_rows=0, **attributes):
        """Declares a table with rows of `dim` floats. Ids: any 64-bit id (n_rows=0), or 0..n_rows-1.
        Returns the id of the table.

        attributes: mean, std, lr, l1, l2; for admission and ageing of rows (docs/online.md)
        admit_count, ageing, ..."""
        n = self._call("table", name.encode(), dim, n_rows, _attributes(attributes))
        self._dim.append(dim)
        return n

    def start(self):
        self._call("start")

    def pull_dense(self, i, out=None):
        out = self._out(out, self._shape[i])
        self._call("pull_dense", i, _pointer(out, _f32p))
        return out

    def pull_rows(self, table, ids, create=True, out=None):
        """Rows of `ids`, an array of any shape. The result has that shape and one more axis."""
        ids = np.ascontiguousarray(ids).astype(np.uint64, copy=False)
        out = self._out(out, ids.shape + (self._dim[table],))
        self._call("pull_rows", table, ids.size, _pointer(ids, _u64p), _pointer(out, _f32p), 1 if create else 0)
        return out

    def wait(self):
        self._call("wait")
        self._held.clear()

    def push_dense(self, i, grad):
        grad = self._float(grad, self._shape[i])
        self._held.append(grad)
        self._call("push_dense", i, _pointer(grad, _f32p))

    def push_rows(self, table, ids, grad):
        ids = np.ascontiguousarray(ids).astype(np.uint64, copy=False)
        grad = self._float(grad, ids.shape + (self._dim[table],))
        self._call("push_rows", table, ids.size, _pointer(ids, _u64p), _pointer(grad, _f32p))

    def push_seen_rows(self, table, ids, grad, shows, clicks):
        """push_rows for a table with admission or ageing. For each of `ids`: how often it was shown,
        and how many of these times it was clicked."""
        ids = np.ascontiguousarray(ids).astype(np.uint64, copy=False)
        grad = self._float(grad, ids.shape + (self._dim[table],))
        seen = np.empty(ids.shape + (2,), np.uint32)
        seen[..., 0], seen[..., 1] = shows, clicks
        self._call("push_seen_rows", table, ids.size, _pointer(ids, _u64p), _pointer(grad, _f32p), _pointer(seen, _u32p))

    def step_end(self, n_samples, sums=()):
        sums = np.asarray(sums, np.float64)
        self._call("step_end", int(n_samples), _pointer(sums, _f64p), len(sums))

    def step_sums(self, n):
        """Yields (step, samples, sums) of complete steps: n sums each, over all trainers."""
        while True:
            step, samples, sums = ctypes.c_uint64(), ctypes.c_uint64(), np.zeros(n)
            if not self._call("step_sums", ctypes.byref(step), ctypes.byref(samples), _pointer(sums, _f64p), n):
                return
            yield step.value, samples.value, sums

    def pass_end(self):
        self._call("pass_end")

    def reduce(self, values):
        """The sum of `values` over all trainers, with the same bits on all."""
        values = np.array(values, np.float64, ndmin=1)
        self._call("reduce", _pointer(values, _f64p), values.size)
        return values

    def day_end(self):
        """Ends a day of data; call it after pass_end. Returns (removed rows, remaining rows, ids
        without a row) of all tables with admission or ageing."""
        numbers = [ctypes.c_uint64() for _ in range(3)]
        self._call("day_end", *map(ctypes.byref, numbers))
        return tuple(n.value for n in numbers)

    def barrier(self):
        self._call("barrier")

    def save(self, directory, name):
        self._call("save", directory.encode(), name.encode())

    def load(self, folder, missing="fail"):
        self._call("load", folder.encode(), missing.encode())

    def leave(self):
        """Leaves the job. Without this call the other trainers take this trainer for lost."""
        self._call("leave")
        self.close()

    def close(self):
        if self._ps:
            self._lib.paddle_ps_free(self._ps)
            self._ps = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None and self._ps:
            self.leave()
        self.close()

    def _out(self, out, shape):
        if out is None:
            out = np.empty(shape, np.float32)
        if out.dtype != np.float32 or out.shape != tuple(shape) or not out.flags.c_contiguous or not out.flags.writeable:
            raise Error(-9, "out is a writeable, contiguous float32 array of shape %s" % (tuple(shape),))
        self._held.append(out)
        return out

    @staticmethod
    def _float(array, shape):
        array = np.ascontiguousarray(array, np.float32)
        if array.shape != tuple(shape):
            raise Error(-9, "the gradient has shape %s, not %s" % (array.shape, tuple(shape)))
        return array
