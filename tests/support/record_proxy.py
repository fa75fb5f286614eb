# SPDX-License-Identifier: Apache-2.0
"""record_proxy.py - somebody on the path of a connection, without the job's key.

    record_proxy.py LISTEN_IP TARGET_IP PORT[,PORT...] DEED DIRECTION RECORD LOG

A proxy on LISTEN_IP:PORT in front of TARGET_IP:PORT lets the handshake pass (two frames in each
direction) and then does DEED once, at record RECORD (from 0) of DIRECTION (up: from the connector, or
down): nothing, flip, length (it grows), repeat, drop, swap, forge (a record with a plain frame that
writes a file), or handshake (it cuts the connection there, and changes the handshake of the next connection). The deed
"handshakes" changes the handshake of every connection.
At SIGTERM it writes to LOG what it has seen and done, and ends.
"""
import json, signal, socket, struct, sys, threading, zlib

HEADER = 64
PS_STORE = 0x414


def frame(kind, *sections):
    body, sizes = b"", []
    for s in sections:
        sizes.append(len(s))
        body += s + bytes(-len(s) % 64)
    head = struct.pack("<IHHQQII", 0x314C4450, kind, 0, 1, HEADER + len(body), len(sections), 0)
    return head + b"".join(struct.pack("<Q", n) for n in sizes + [0] * (4 - len(sizes))) + body


def as_record(data):
    return struct.pack(">H", len(data)) + bytes(16) + data


class RecordProxy:
    """`forged`: what "forge" inserts; by default a record with a plain PS_STORE."""
    handshake_frames = 2  # in each direction

    def __init__(self, listen, target, deed="nothing", direction="up", record=0, port=0,
                 forged=None):
        self.target, self.deed, self.direction, self.record = target, deed, direction, record
        self.forged = as_record(frame(PS_STORE, b"\5\0\0\0owned", b"x")) if forged is None else forged
        self.spoil = deed == "handshakes"
        self.done, self.seen, self.bytes, self.connections = False, bytearray(), 0, 0
        self.lock = threading.Lock()
        self.socket = socket.create_server((listen, port))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            for way in ((client, server, "up"), (server, client, "down")):
                way[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.relay, args=way, daemon=True).start()

    def close(self):
        self.socket.close()

    def relay(self, source, to, direction):
        frames, records, buf, kept = 0, 0, b"", None
        try:
            while True:
                got = source.recv(1 << 16)
                if not got:
                    break
                buf += got
                while True:
                    n = self.unit_bytes(buf, frames, records, direction)
                    if not n or len(buf) < n:
                        break
                    unit, buf = buf[:n], buf[n:]
                    if frames < self.handshake_frames:
                        frames += 1
                        if self.spoil and direction == "down" and frames == self.handshake_frames:
                            self.spoil = self.deed == "handshakes"
                            unit = unit[:70] + bytes([unit[70] ^ 1]) + unit[71:]
                        to.sendall(unit)
                        continue
                    if kept is not None:
                        unit, kept = unit + kept, None
                    elif direction == self.direction and records == self.record and self.begin():
                        unit, kept = self.change(unit)
                    records += 1
                    with self.lock:
                        self.bytes += n
                        if len(self.seen) < 4 << 20:
                            self.seen += unit
                    to.sendall(unit)
            to.sendall(buf)
        except OSError:
            pass
        for s in (source, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def unit_bytes(self, buf, frames, records, direction):
        """Bytes of the frame or record at the beginning of buf; 0: not known yet."""
        if frames < self.handshake_frames:
            return struct.unpack_from("<Q", buf, 16)[0] if len(buf) >= HEADER else 0
        if self.deed == "nothing":
            return len(buf)
        return 18 + struct.unpack_from(">H", buf)[0] if len(buf) >= 2 else 0

    def begin(self):
        with self.lock:
            first = not self.done and self.deed != "nothing"
            self.done = self.done or first
        return first

    def change(self, unit):
        """The bytes to send now, and those that come after the next record."""
        if self.deed == "flip":
            middle = len(unit) // 2
            return unit[:middle] + bytes([unit[middle] ^ 1]) + unit[middle + 1:], None
        if self.deed == "length":
            return bytes([unit[0] | 0x80 if unit[0] < 0x80 else 0xff]) + unit[1:], None
        if self.deed == "handshake":
            self.spoil = True
            raise ConnectionError("cut")
        if self.deed == "repeat":
            return unit + unit, None
        if self.deed == "drop":
            return b"", None
        if self.deed == "swap":
            return b"", unit
        if self.deed == "forge":
            return self.forged + unit, None
        raise ValueError(self.deed)

    def report(self):
        """What an eavesdropper knows: `packs_to` is the size of the bytes after zlib, over their size."""
        seen = bytes(self.seen)
        return {"done": self.done and not self.spoil, "bytes": self.bytes, "connections": self.connections,
                "packs_to": len(zlib.compress(seen)) / max(len(seen), 1)}


def main():
    listen, target, ports, deed, direction, record, log = sys.argv[1:]
    proxies = [RecordProxy(listen, (target, int(p)), deed, direction, int(record), int(p))
               for p in ports.split(",")]
    for other in proxies[1:]:  # the deed is done on the first port only
        other.deed = "nothing"
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM])
    seen = b"".join(bytes(p.seen) for p in proxies)
    with open(log + ".seen", "wb") as f:
        f.write(seen)
    with open(log, "w") as f:
        json.dump([p.report() for p in proxies], f)


if __name__ == "__main__":
    main()
