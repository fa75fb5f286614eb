#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tfevents.py - reads event files of TensorBoard: an independent reader, with Google's protobuf and
crcmod, for tests of `paddlectl run --tensorboard`.

    tfevents.py whole FILE RECORD [CUT]   FILE has the values of RECORD/metrics.jsonl, names, steps and
                                          times included, and nothing else; with CUT the values of its
                                          first events, of which there are some, and perhaps a last
                                          record that is cut off
    tfevents.py tags FILE                 prints the names of the values, sorted
"""
import json
import math
import os
import struct
import sys

import crcmod.predefined
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

crc32c = crcmod.predefined.mkCrcFun("crc-32c")


def make_event():
    """The class of tensorflow.Event, as far as it is read here; field numbers of TensorFlow's
    event.proto and summary.proto."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="tensorflow", syntax="proto3")
    for message, fields in (
            ("Value", (("tag", 1, kind.TYPE_STRING), ("simple_value", 2, kind.TYPE_FLOAT))),
            ("Summary", (("value", 1, ".tensorflow.Value"),)),
            ("Event", (("wall_time", 1, kind.TYPE_DOUBLE), ("step", 2, kind.TYPE_INT64),
                       ("file_version", 3, kind.TYPE_STRING), ("summary", 5, ".tensorflow.Summary")))):
        m = file.message_type.add(name=message)
        for name, number, type_ in fields:
            f = m.field.add(name=name, number=number, label=kind.LABEL_OPTIONAL)
            if isinstance(type_, str):
                f.type, f.type_name = kind.TYPE_MESSAGE, type_
            else:
                f.type = type_
            if name == "value":
                f.label = kind.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("tensorflow.Event")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)


Event = make_event()


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path, may_be_cut):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        rest = len(data) - at
        n = struct.unpack_from("<Q", data, at)[0] if rest >= 12 else 0
        if rest < 16 + n or rest < 12:
            assert may_be_cut, f"{path}: the record at {at} is cut off"
            return
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at:at + 8]), f"length at {at}"
        body = data[at + 12:at + 12 + n]
        assert struct.unpack_from("<I", data, at + 12 + n)[0] == masked(body), f"data at {at}"
        yield body
        at += 16 + n


def events(path, may_be_cut=False):
    """[(time, step, {tag: value})] behind the version."""
    found = []
    for i, body in enumerate(records(path, may_be_cut)):
        e = Event.FromString(body)
        if not i:
            assert e.file_version == "brain.Event:2" and e.step == 0, e
            continue
        assert not e.file_version and e.summary.value, e
        tags = {v.tag: v.simple_value for v in e.summary.value}
        assert len(tags) == len(e.summary.value), f"a tag twice: {e}"
        found.append((e.wall_time, e.step, tags))
    return found


OWN = {"progress": {"own_rate": "speed"} | {k: "share/" + k for k in
                   ("wait", "read", "forward", "backward", "push", "pull")},
       "pass": {"peak_memory": "memory", "sent": "network/sent", "received": "network/received",
                "seconds": "seconds/pass", "waited": "seconds/waited"},
       "test": {}}
GROUP = {"progress": "train", "pass": "pass", "test": "test"}


def expected(record):
    """The same, as docs/records.md says, of the lines of a record."""
    found, first, done = [], {}, 0
    for line in open(record + "/metrics.jsonl"):
        e = json.loads(line)
        kind, rank = e.get("ev"), e.get("rank")
        if kind not in OWN:
            continue
        if rank == 0 and kind != "test":
            first.setdefault(e["pass"], done)
            done = first[e["pass"]] + e["batch" if kind == "progress" else "batches"]
        step = done
        if kind == "progress" and rank and e["pass"] in first:
            step = first[e["pass"]] + e["batch"]
        tags = {f"{name}/trainer-{rank}": e[key] for key, name in OWN[kind].items() if key in e}
        if rank == 0:
            tags |= {f"cost/{GROUP[kind]}": e["cost"]} if "cost" in e else {}
            for name, v in e.get("metrics", {}).items():
                if kind == "test":
                    tags["test/" + name.replace("test.", "", 1)] = v
                elif not name.startswith("test."):
                    tags[f"{GROUP[kind]}/{name}"] = v
            tags |= {"speed/job": e["rate"]} if kind == "progress" else {}
            tags |= {f"rows/{k}": v for k, v in e.get("rows", {}).items()}
            tags |= {f"memory/pserver-{k}": v for k, v in e.get("server_memory", {}).items()}
        if tags:
            found.append((e["t"] / 1000, step, tags))
    return found


def is_near(a, b):
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-30)


def whole(path, record, may_be_cut):
    got, want = events(path, may_be_cut), expected(record)
    assert got and (may_be_cut or len(got) == len(want)), (len(got), len(want))
    for g, w in zip(got, want):
        assert g[0] == w[0] and g[1] == w[1] and g[2].keys() == w[2].keys(), (g, w)
        assert all(is_near(g[2][k], w[2][k]) for k in w[2]), (g, w)
    print(f"{len(got)} events of {os.path.basename(path)}")


if sys.argv[1] == "tags":
    print("\n".join(sorted({tag for _, _, tags in events(sys.argv[2]) for tag in tags})))
else:
    whole(sys.argv[2], sys.argv[3], len(sys.argv) > 4)
