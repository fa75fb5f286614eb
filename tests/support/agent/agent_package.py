# SPDX-License-Identifier: Apache-2.0
"""Makes a package as in docs/protocol.md ("Objects") without the project's code: manifest and
objects of a tree."""
import hashlib
import struct


def v(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


class Package:
    """Entries are added in order: folder(), file(), link()."""

    def __init__(self):
        self.objects, self.leaves, self.records, self.table = {}, [], [], []
        self.last, self.n, self.bytes = b"", 0, 0

    def keep(self, raw):
        i = hashlib.blake2b(raw, digest_size=32).digest()
        self.objects[i] = raw
        return i

    def _path(self, path):
        k = 0
        while k < min(len(path), len(self.last)) and path[k] == self.last[k]:
            k += 1
        self.last = path
        self.n += 1
        return v(k) + v(len(path) - k) + path[k:]

    def _head(self, kind, path, mode, mtime):
        if len(self.records) >= 60:
            self._leaf()
        return bytes([kind]) + self._path(path) + struct.pack("<Hq", mode, mtime)

    def _row(self, i, n):
        if (i, n) not in self.table:
            self.table.append((i, n))
        return self.table.index((i, n))

    def folder(self, path, mode=0o755, mtime=1):
        record = self._head(2, path, mode, mtime) # may begin a leaf
        self.records.append(record)

    def link(self, path, target, mtime=1):
        record = self._head(3, path, 0o777, mtime) + v(len(target)) + target
        self.records.append(record)

    def file(self, path, data, mode=0o644, mtime=1, piece=65536, bundle=None, at=0):
        head = self._head(1, path, mode, mtime) + v(len(data))
        extents = []
        if bundle:
            extents.append(v(self._row(hashlib.blake2b(bundle, digest_size=32).digest(), len(bundle))) + v(0) + v(at) + v(len(data)))
        else:
            for k in range(0, len(data), piece):
                raw = data[k:k + piece]
                extents.append(v(self._row(self.keep(raw), len(raw))) + v(0) + v(0) + v(len(raw)))
        self.records.append(head + v(len(extents)) + b"".join(extents))
        self.bytes += len(data)

    def large(self, path, ids, piece):
        """Adds a file whose pieces exist only as ids."""
        record = self._head(1, path, 0o644, 1) + v(len(ids) * piece) + v(0)
        self.records.append(record)
        for k in range(0, len(ids), 100):
            self._leaf()
            part = ids[k:k + 100]
            self.records.append(b"\4" + v(len(part)) + b"".join(v(self._row(i, piece)) + v(0) + v(0) + v(piece) for i in part))
        self.bytes += len(ids) * piece

    def _leaf(self):
        if self.records:
            raw = struct.pack("<BBHII", 1, 1, 0, len(self.table), len(self.records)) + b"".join(i + struct.pack("<I", n) for i, n in self.table)
            raw += b"".join(self.records)
            self.leaves.append((self.keep(raw), len(raw)))
            self.records, self.table, self.last = [], [], b""

    def root(self):
        self._leaf()
        level, refs = 1, self.leaves
        while len(refs) > 100:
            above = []
            for k in range(0, len(refs), 100):
                raw = struct.pack("<BBHI", 2, 1, level, len(refs[k:k + 100])) + b"".join(i + struct.pack("<I", n) for i, n in refs[k:k + 100])
                above.append((self.keep(raw), len(raw)))
            level, refs = level + 1, above
        raw = struct.pack("<BBHIQQ", 3, 1, level, len(refs), self.n, self.bytes) + b"".join(i + struct.pack("<I", n) for i, n in refs)
        self.id = hashlib.blake2b(raw, digest_size=32).digest()
        return raw


def package_of(files):
    """Makes a Package of {path: bytes, or (bytes, mode), or None for a folder}; adds missing
    folders."""
    p, seen = Package(), set()
    for path in sorted(files, key=lambda x: x.split("/")):
        parts = path.split("/")
        for k in range(1, len(parts) + (files[path] is None)):
            folder = "/".join(parts[:k])
            if folder not in seen:
                seen.add(folder)
                p.folder(folder.encode())
        if files[path] is not None:
            data, mode = files[path] if isinstance(files[path], tuple) else (files[path], 0o644)
            p.file(path.encode(), data, mode)
    return p


def tree_of(root, get):
    """The inverse of package_of, without modes: {path: bytes, or None for a folder}. get(id)
    returns an object."""
    def refs(raw, at, n):
        return [(raw[at + 36 * k:at + 36 * k + 32], struct.unpack_from("<I", raw, at + 36 * k + 32)[0]) for k in range(n)]

    kind, version, level, n, entries, _ = struct.unpack_from("<BBHIQQ", root)
    assert (kind, version) == (3, 1)
    below = refs(root, 24, n)
    for level in range(level - 1, 0, -1):
        above, below = [get(i) for i, _ in below], []
        for raw in above:
            assert struct.unpack_from("<BBH", raw) == (2, 1, level)
            below += refs(raw, 8, struct.unpack_from("<I", raw, 4)[0])
    tree, path = {}, b""
    for i, _ in below:
        raw, last = get(i), b""
        kind, version, _, n_objects, n_records = struct.unpack_from("<BBHII", raw)
        assert (kind, version) == (1, 1)
        table, at = refs(raw, 12, n_objects), 12 + 36 * n_objects

        def number():
            nonlocal at
            out = k = 0
            while True:
                out |= (raw[at] & 127) << k
                at, k = at + 1, k + 7
                if raw[at - 1] < 128:
                    return out

        def some_bytes():
            nonlocal at
            n = number()
            at += n
            return raw[at - n:at]
        for _ in range(n_records):
            kind = raw[at]
            at += 1
            if kind != 4:
                shared = number()
                path = last = last[:shared] + some_bytes()
                at += 10  # mode, mtime
                tree[path.decode()] = some_bytes() if kind == 3 else None if kind == 2 else bytes(number())
                end = 0
            for _ in range(number() if kind in (1, 4) else 0):
                i, _ = table[number()]
                begin = end + number()
                off = number()
                n = number()
                end = begin + n
                data = tree[path.decode()]
                tree[path.decode()] = data[:begin] + get(i)[off:off + n] + data[end:]
    assert len(tree) == entries
    return tree
