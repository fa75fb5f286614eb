#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""api.py KUBECONFIG: an API server for the real kubectl, with the pods of the kubectl of the tests
(KUBE_STATE). It has what engine = kubernetes uses: discovery, get, list, create, delete, and exec
over WebSocket (kubectl 1.30 and newer) or SPDY/3.1 (older). It writes KUBECONFIG when it listens."""
import base64, hashlib, importlib.machinery, importlib.util, json, os, select, struct, subprocess, sys, threading, zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

loader = importlib.machinery.SourceFileLoader("cluster", os.path.join(os.path.dirname(os.path.realpath(__file__)), "kubectl"))
spec = importlib.util.spec_from_loader("cluster", loader)
cluster = importlib.util.module_from_spec(spec)
loader.exec_module(cluster)

GROUPS = {"v1": {"pods": "Pod", "services": "Service", "events": "Event"}, "apps/v1": {"statefulsets": "StatefulSet"},
          "batch/v1": {"jobs": "Job"}}
VERBS = ["create", "delete", "get", "list", "patch"]
CONFIG = """apiVersion: v1
kind: Config
current-context: other
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: u, user: {}}]
contexts: [{name: test, context: {cluster: c, user: u}}]
"""


def shown(o, version):
    o = {k: v for k, v in o.items() if k != "x"}
    o["apiVersion"] = version
    o["metadata"] = {"uid": "1", **o["metadata"], "namespace": "ml", "resourceVersion": "1"}
    return o


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, reason, message):
        self.answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                     "reason": reason, "code": status}, status)

    def discover(self, path):
        if path == "/version":
            self.answer({"major": "1", "minor": "32", "gitVersion": "v1.32.4"})
        elif path == "/api":
            self.answer({"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            versions = [g for g in GROUPS if "/" in g]
            each = [{"groupVersion": g, "version": "v1"} for g in versions]
            self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": e["groupVersion"].split("/")[0], "versions": [e], "preferredVersion": e} for e in each]})
        elif path in ("/api/v1", "/apis/apps/v1", "/apis/batch/v1"):
            group = path.split("/", 2)[2]
            self.answer({"kind": "APIResourceList", "groupVersion": group, "resources": [
                {"name": name, "singularName": name[:-1], "namespaced": True, "kind": kind, "verbs": VERBS}
                for name, kind in GROUPS[group].items()]})
        elif path == "/openapi/v2":  # an empty description
            self.send_response(200)
            self.send_header("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            return False
        return True

    def do_GET(self):
        self.serve("GET")

    def do_POST(self):
        self.serve("POST")

    def do_DELETE(self):
        self.serve("DELETE")

    def serve(self, verb):
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if verb == "GET" and self.discover(url.path):
            return
        words = url.path.strip("/").split("/")
        version = "/".join(words[1:words.index("namespaces")]) if "namespaces" in words else ""
        if words == ["api", "v1", "namespaces", "ml"]:
            self.answer({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ml"}})
            return
        if version not in GROUPS or words[len(version.split("/")) + 2] != "ml":
            self.refuse(404, "NotFound", f"the server does not know {url.path}")
            return
        resource, *rest = words[len(version.split("/")) + 3:]
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        kind = GROUPS[version][resource]
        if rest[1:] == ["exec"]:
            self.execute(rest[0], parse_qs(url.query)["command"])
            return
        with cluster.Cluster() as c:
            if verb == "POST":
                o = json.loads(body)
                cluster.make(c, o)
                self.answer(shown(o, version), 201)
                return
            if rest:
                o = c.find(kind, rest[0])
                if not o:
                    self.refuse(404, "NotFound", f'{resource} "{rest[0]}" not found')
                elif verb == "DELETE":
                    cluster.remove(c, [o])
                    self.answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
                else:
                    self.answer(shown(o, version))
                return
            found = [o for o in c.objects if o["kind"] == kind]
            if "labelSelector" in query:
                found = [o for o in found if cluster.selects(query["labelSelector"], o)]
            if "fieldSelector" in query:
                found = [o for o in found if query["fieldSelector"] == "type=" + o["type"]]
            for o in found:
                if kind == "Pod":
                    cluster.status(o)
            self.answer({"kind": kind + "List", "apiVersion": version, "metadata": {"resourceVersion": "1"},
                         "items": [shown(o, version) for o in found]})

    def execute(self, name, command):
        with cluster.Cluster() as c:
            pod = c.find("Pod", name)
        self.close_connection = True
        protocol = {"websocket": WebSocket, "spdy/3.1": Spdy}[self.headers.get("Upgrade", "").lower()]
        self.send_response(101)
        self.send_header("Upgrade", self.headers["Upgrade"])
        self.send_header("Connection", "Upgrade")
        stream = protocol(self)
        p = subprocess.Popen(cluster.inside(pod, command), env=cluster.environment(pod), cwd=cluster.home(pod), bufsize=0,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        threading.Thread(target=self.pass_input, args=(stream, p), daemon=True).start()
        channels = {p.stdout: OUT, p.stderr: ERR}
        try:
            while channels:
                for f in select.select(list(channels), [], [])[0]:
                    data = os.read(f.fileno(), 32768)
                    if data:
                        stream.send(channels[f], data)
                    else:
                        del channels[f]
            status = {"metadata": {}, "status": "Success"}
            if p.wait():
                status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": "failed",
                          "details": {"causes": [{"reason": "ExitCode", "message": str(p.returncode)}]}}
            stream.send(RESULT, json.dumps(status).encode())
            stream.end()
        except OSError:
            p.stdout.close()
            p.stderr.close()

    def pass_input(self, stream, p):
        for data in stream.inputs():
            try:
                p.stdin.write(data)
            except OSError:
                pass
        p.stdin.close()


IN, OUT, ERR, RESULT = range(4)


class WebSocket:
    """Channels of v5.channel.k8s.io: the first byte of a message; 255 ends one."""

    def __init__(self, http):
        self.r, self.w, self.sending = http.rfile, http.wfile, threading.Lock()
        key = http.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        http.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        http.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
        http.end_headers()

    def frame(self, data, code):
        n = len(data)
        size = bytes([n]) if n < 126 else struct.pack(">BH", 126, n) if n < 65536 else struct.pack(">BQ", 127, n)
        with self.sending:
            self.w.write(bytes([0x80 | code]) + size + data)
            self.w.flush()

    def send(self, channel, data):
        self.frame(bytes([channel]) + data, 2)

    def end(self):
        self.frame(struct.pack(">H", 1000), 8)

    def read(self):
        head = self.r.read(2)
        if len(head) < 2:
            return 8, b""
        n = head[1] & 127
        if n > 125:
            n = int.from_bytes(self.r.read(2 if n == 126 else 8), "big")
        mask, data = self.r.read(4), self.r.read(n)
        mask = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
        return head[0] & 15, (int.from_bytes(data, "big") ^ mask).to_bytes(n, "big")

    def inputs(self):
        while True:
            code, data = self.read()
            if code == 9:
                self.frame(data, 10)
            elif code == 8 or (code == 2 and data[:1] == b"\xff"):
                return
            elif code == 2 and data[0] == IN:
                yield data[1:]


class Spdy:
    """kubectl opens the streams 1 (result), 3, 5 and 7 (stdin, stdout, stderr), in this order."""

    STREAM = {RESULT: 1, OUT: 5, ERR: 7}
    SYN_STREAM, SYN_REPLY, PING, GOAWAY = 1, 2, 6, 7

    def __init__(self, http):
        self.r, self.w, self.sending = http.rfile, http.wfile, threading.Lock()
        self.headers = zlib.compressobj()  # one for all answers, as the protocol wants
        http.send_header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
        http.end_headers()

    def write(self, head, flags, data):
        with self.sending:
            self.w.write(head + struct.pack(">I", flags << 24 | len(data)) + data)
            self.w.flush()

    def control(self, kind, data):
        self.write(struct.pack(">HH", 0x8003, kind), 0, data)

    def send(self, channel, data):
        self.write(struct.pack(">I", self.STREAM[channel]), 0, data)

    def end(self):
        for stream in self.STREAM.values():
            self.write(struct.pack(">I", stream), 1, b"")

    def inputs(self):
        while True:
            head = self.r.read(8)
            if len(head) < 8:
                return
            first, size = struct.unpack(">II", head)
            data = self.r.read(size & 0xFFFFFF)
            if first == 3:
                yield data
                if size >> 24 & 1:
                    return
            elif first == 0x80030000 | self.SYN_STREAM:
                none = self.headers.compress(bytes(4)) + self.headers.flush(zlib.Z_SYNC_FLUSH)
                self.control(self.SYN_REPLY, data[:4] + none)
            elif first == 0x80030000 | self.PING:
                self.control(self.PING, data)
            elif first == 0x80030000 | self.GOAWAY:
                return


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(CONFIG % server.server_address[1])
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
