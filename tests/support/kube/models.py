#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""models.py YAML... [--same JSON]: each document is an object that the official models of
Kubernetes (python3-kubernetes) know: no field without a name in them, none missing, each of its type.
--same: the documents of the only YAML file are the items of this List."""
import json, re, sys

import yaml
from kubernetes import client

MODELS = {"Service": client.V1Service, "StatefulSet": client.V1StatefulSet, "Job": client.V1Job, "Role": client.V1Role}
PLAIN = {"str": str, "int": int, "bool": bool, "float": float}


def check(value, kind, where):
    many, table = re.match(r"list\[(.*)\]$", kind), re.match(r"dict\(str, (.*)\)$", kind)
    if many:
        assert type(value) is list, f"{where} is no list"
        for i, v in enumerate(value):
            check(v, many[1], f"{where}[{i}]")
    elif table:
        assert type(value) is dict, f"{where} is no object"
        for k, v in value.items():
            check(v, table[1], f"{where}.{k}")
    elif kind in PLAIN:
        assert type(value) is PLAIN[kind], f"{where} is {value!r}, not of type {kind}"
    elif kind == "object":
        assert type(value) in (str, int), f"{where} is {value!r}"
    else:
        model = getattr(client, kind)
        names = {v: k for k, v in model.attribute_map.items()}
        assert type(value) is dict, f"{where} is no object"
        for k, v in value.items():
            assert k in names, f"{where} has an unknown field {k}"
            check(v, model.openapi_types[names[k]], f"{where}.{k}")


class Answer:
    def __init__(self, value):
        self.data = json.dumps(value)


def round_trip(value, kind):
    """The models' own reader, which refuses an object without a required field."""
    api = client.ApiClient()
    return api.sanitize_for_serialization(api.deserialize(Answer(value), kind))


def main(files, same):
    for file in files:
        with open(file) as f:
            documents = list(yaml.safe_load_all(f))
        kinds = [d["kind"] for d in documents]
        for d in documents:
            model = MODELS[d["kind"]].__name__
            check(d, model, d["kind"])
            back = round_trip(d, model)
            assert json.dumps(back, sort_keys=True) == json.dumps(d, sort_keys=True), f"{file}: {d['kind']} differs: {back}"
        if same:
            with open(same) as f:
                items = json.load(f)["items"]
            assert json.dumps(items, sort_keys=True) == json.dumps(documents, sort_keys=True), f"{file} is not {same}"
        print(file, *kinds)


words = sys.argv[1:]
given = words.pop(words.index("--same") + 1) if "--same" in words else None
main([w for w in words if w != "--same"], given)
