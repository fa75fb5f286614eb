"""A package as docs/protocol.md describes it ("Objects"), made without the project's code: manifest and objects of a tree."""
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
        record = self._head(2, path, mode, mtime) # which may begin a leaf
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
        """A file of pieces that exist only as ids."""
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
    """Of {path: bytes, or (bytes, mode), or None for a folder}; folders come by themselves."""
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
