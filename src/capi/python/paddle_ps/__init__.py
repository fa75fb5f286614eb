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
        rows = ps.pull_rows(words, ids)         # one row for each id, in any order and shape
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
from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Any, Iterator, Optional, Sequence, Type, Union

import numpy as np
import numpy.typing as npt

VERSION = 2
Floats = npt.NDArray[np.float32]
_u64p, _u32p = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
_f32p, _f64p = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_double)


class Error(RuntimeError):
    """code: an error code of paddle_ps.h; the text explains the error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _library() -> ctypes.CDLL:
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.environ.get("PADDLE_PS_LIBRARY"), os.path.join(here, "libpaddle_ps.so.1"), "libpaddle_ps.so.1"]
    place = next(p for p in places if p and (os.sep not in p or os.path.exists(p)))
    lib = ctypes.CDLL(place)
    P, I, S, U, Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t
    calls: list[tuple[str, Any, list[Any]]] = [
        ("join", P, [S, S, Z]), ("free", None, [P]), ("error", S, [P]), ("version", I, []), ("trainer_id", I, [P]),
        ("n_trainers", I, [P]), ("step", U, [P]), ("dense", I, [P, S, ctypes.c_uint, _u64p, S]),
        ("table", I, [P, S, ctypes.c_uint32, U, S]), ("start", I, [P]), ("pull_dense", I, [P, I, _f32p]),
        ("pull_rows", I, [P, I, Z, _u64p, _f32p, I]), ("wait", I, [P]), ("push_dense", I, [P, I, _f32p]),
        ("push_rows", I, [P, I, Z, _u64p, _f32p]), ("push_seen_rows", I, [P, I, Z, _u64p, _f32p, _u32p]),
        ("day_end", I, [P, _u64p, _u64p, _u64p]), ("step_end", I, [P, U, _f64p, Z]),
        ("step_sums", I, [P, _u64p, _u64p, _f64p, Z]), ("pass_end", I, [P]), ("reduce", I, [P, _f64p, Z]), ("barrier", I, [P]),
        ("save", I, [P, S, S]), ("load", I, [P, S, S]), ("leave", I, [P]),
    ]
    for name, result, args in calls:
        f = getattr(lib, "paddle_ps_" + name)
        f.restype, f.argtypes = result, args
    if lib.paddle_ps_version() < VERSION:
        raise ImportError("%s is older than this module" % place)
    return lib


def _pointer(array: npt.NDArray[Any], kind: Any) -> Any:
    return array.ctypes.data_as(kind)


def _keys(ids: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(ids).astype(np.uint64, copy=False)


def _attributes(attributes: dict[str, float]) -> bytes:
    return " ".join("%s=%.17g" % item for item in sorted(attributes.items())).encode()


def join(settings: Optional[str] = None) -> Client:
    """Joins the job as a trainer. settings: as in paddle_ps.h ("optimizer=adagrad seed=7 local=1");
    other settings come from the environment."""
    return Client(settings)


class Client:
    """A trainer of a job; see join. As a context manager it leaves the job at the end of the block,
    or, after an exception, lets the job fail."""

    def __init__(self, settings: Optional[str] = None) -> None:
        self._ps: Any = None
        self._lib = _library()
        why = ctypes.create_string_buffer(1000)
        self._ps = self._lib.paddle_ps_join(settings.encode() if settings is not None else None, why, len(why))
        if not self._ps:
            raise Error(-10, why.value.decode(errors="replace"))
        self._shape: list[tuple[int, ...]] = []
        self._dim: list[int] = []
        self._held: list[Floats] = []  # arrays that the library reads or writes until the next wait

    def _call(self, name: str, *args: Any) -> int:
        if not self._ps:
            raise Error(-9, "this trainer has left the job")
        rc: int = getattr(self._lib, "paddle_ps_" + name)(self._ps, *args)
        if rc < 0:
            raise Error(rc, self._lib.paddle_ps_error(self._ps).decode(errors="replace"))
        return rc

    @property
    def trainer_id(self) -> int:
        """The rank of this trainer, from 0."""
        return self._call("trainer_id")

    @property
    def n_trainers(self) -> int:
        """Trainers of the job."""
        return self._call("n_trainers")

    @property
    def step(self) -> int:
        """The number of the next step, from 0."""
        if not self._ps:
            raise Error(-9, "this trainer has left the job")
        return int(self._lib.paddle_ps_step(self._ps))

    def dense(self, name: str, shape: Union[int, Sequence[int]], **attributes: float) -> int:
        """Declares a parameter of at most 4 dimensions. attributes: mean, std (of the normal initial
        values; 0), lr (factor of the learning rate; 1), l1, l2. Returns its id."""
        sizes = np.atleast_1d(np.asarray(shape, np.uint64))
        n = self._call("dense", name.encode(), len(sizes), _pointer(sizes, _u64p), _attributes(attributes))
        self._shape.append(tuple(int(k) for k in sizes))
        return n

    def shape(self, i: int) -> tuple[int, ...]:
        """The shape of a declared parameter."""
        return self._shape[i]

    def table(self, name: str, dim: int, n_rows: int = 0, **attributes: float) -> int:
        """Declares a table with rows of `dim` floats. Ids: any 64-bit id (n_rows=0), or 0..n_rows-1.
        Returns the id of the table.

        attributes: mean, std, lr, l1, l2; for admission and ageing of rows (docs/online.md)
        admit_count, ageing, ..."""
        n = self._call("table", name.encode(), dim, n_rows, _attributes(attributes))
        self._dim.append(dim)
        return n

    def start(self) -> None:
        """Connects to the servers. Waits until all trainers and servers agree with the declarations."""
        self._call("start")

    def pull_dense(self, i: int, out: Optional[Floats] = None) -> Floats:
        """All values of the parameter; complete after wait."""
        out = self._out(out, self._shape[i])
        self._call("pull_dense", i, _pointer(out, _f32p))
        return out

    def pull_rows(self, table: int, ids: npt.ArrayLike, create: bool = True, out: Optional[Floats] = None) -> Floats:
        """Rows of `ids`, an array of any shape. The result has that shape and one more axis; it is
        complete after wait. create=False: a missing row reads as its initial value, and is not
        created."""
        keys = _keys(ids)
        out = self._out(out, keys.shape + (self._dim[table],))
        self._call("pull_rows", table, keys.size, _pointer(keys, _u64p), _pointer(out, _f32p), 1 if create else 0)
        return out

    def wait(self) -> None:
        """Waits until all pulled values are here. Pushed arrays may be changed again."""
        self._call("wait")
        self._held.clear()

    def push_dense(self, i: int, grad: npt.ArrayLike) -> None:
        """Pushes the gradient of a parameter, at most once a step."""
        grad = self._float(grad, self._shape[i])
        self._held.append(grad)
        self._call("push_dense", i, _pointer(grad, _f32p))

    def push_rows(self, table: int, ids: npt.ArrayLike, grad: npt.ArrayLike) -> None:
        """Pushes gradients of rows, at most once a step. Those of equal ids are added."""
        keys = _keys(ids)
        grad = self._float(grad, keys.shape + (self._dim[table],))
        self._call("push_rows", table, keys.size, _pointer(keys, _u64p), _pointer(grad, _f32p))

    def push_seen_rows(self, table: int, ids: npt.ArrayLike, grad: npt.ArrayLike, shows: npt.ArrayLike, clicks: npt.ArrayLike) -> None:
        """push_rows for a table with admission or ageing. For each of `ids`: how often it was shown,
        and how many of these times it was clicked."""
        keys = _keys(ids)
        grad = self._float(grad, keys.shape + (self._dim[table],))
        seen = np.empty(keys.shape + (2,), np.uint32)
        seen[..., 0], seen[..., 1] = shows, clicks
        self._call("push_seen_rows", table, keys.size, _pointer(keys, _u64p), _pointer(grad, _f32p), _pointer(seen, _u32p))

    def step_end(self, n_samples: int, sums: Sequence[float] = ()) -> None:
        """Ends the step: the servers apply the gradients. sums: own numbers, which step_sums adds up."""
        numbers = np.asarray(sums, np.float64)
        self._call("step_end", int(n_samples), _pointer(numbers, _f64p), len(numbers))

    def step_sums(self, n: int) -> Iterator[tuple[int, int, npt.NDArray[np.float64]]]:
        """Yields (step, samples, sums) of complete steps: n sums each, over all trainers."""
        while True:
            step, samples, sums = ctypes.c_uint64(), ctypes.c_uint64(), np.zeros(n)
            if not self._call("step_sums", ctypes.byref(step), ctypes.byref(samples), _pointer(sums, _f64p), n):
                return
            yield step.value, samples.value, sums

    def pass_end(self) -> None:
        """Ends a pass, when all trainers do."""
        self._call("pass_end")

    def reduce(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The sum of `values` over all trainers, with the same bits on all."""
        numbers = np.array(values, np.float64, ndmin=1)
        self._call("reduce", _pointer(numbers, _f64p), numbers.size)
        return numbers

    def day_end(self) -> tuple[int, int, int]:
        """Ends a day of data; call it after pass_end. Returns (removed rows, remaining rows, ids
        without a row) of all tables with admission or ageing."""
        numbers = [ctypes.c_uint64() for _ in range(3)]
        self._call("day_end", *map(ctypes.byref, numbers))
        return numbers[0].value, numbers[1].value, numbers[2].value

    def barrier(self) -> None:
        """Waits for all trainers."""
        self._call("barrier")

    def save(self, directory: str, name: str) -> None:
        """Saves the model as directory/name on the servers' machines. All trainers call it; the
        folder is complete or absent."""
        self._call("save", directory.encode(), name.encode())

    def load(self, folder: str, missing: str = "fail") -> None:
        """Loads the values of a saved model. missing: fail, rand or zero, for parameters that it lacks."""
        self._call("load", folder.encode(), missing.encode())

    def leave(self) -> None:
        """Leaves the job. Without this call the other trainers take this trainer for lost."""
        self._call("leave")
        self.close()

    def close(self) -> None:
        """Frees the client. Without leave before, the other trainers take this trainer for lost."""
        if self._ps:
            self._lib.paddle_ps_free(self._ps)
            self._ps = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is None and self._ps:
            self.leave()
        self.close()

    def _out(self, out: Optional[Floats], shape: tuple[int, ...]) -> Floats:
        if out is None:
            out = np.empty(shape, np.float32)
        if out.dtype != np.float32 or out.shape != tuple(shape) or not out.flags.c_contiguous or not out.flags.writeable:
            raise Error(-9, "out is a writeable, contiguous float32 array of shape %s" % (tuple(shape),))
        self._held.append(out)
        return out

    @staticmethod
    def _float(array: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
        floats = np.ascontiguousarray(array, np.float32)
        if floats.shape != tuple(shape):
            raise Error(-9, "the gradient has shape %s, not %s" % (floats.shape, tuple(shape)))
        return floats
