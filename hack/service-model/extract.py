#!/usr/bin/env python3
"""Writes testing/cloud-fakes/model/: what botocore's service models say of the messages of the actions below.

Facts only: which shapes there are, of which type, with which members under which names, which of them are required, and which words a short
enumeration has. No text of the model is kept.

    <virtualenv of cargo xtask moto build>/bin/python hack/service-model/extract.py
"""

import json
import pathlib

import botocore
import botocore.loaders

ACTIONS = {
    "ec2": [
        "AssignIpv6Addresses",
        "CreateTags",
        "DescribeImages",
        "DescribeInstances",
        "ModifyNetworkInterfaceAttribute",
        "RunInstances",
        "TerminateInstances",
    ],
    "sts": ["AssumeRole", "AssumeRoleWithWebIdentity", "GetCallerIdentity"],
}
# Enumerations that grow with every month (instance types, resource types) would refuse what is right.
LONGEST_ENUMERATION = 16
FOLDER = pathlib.Path(__file__).parents[2] / "testing/cloud-fakes/model"


def member(of):
    return {key: of[key] for key in ("shape", "locationName", "queryName", "flattened") if key in of}


def facts(shape):
    kept = {"type": shape["type"]}
    if shape.get("required"):
        kept["required"] = sorted(shape["required"])
    if "members" in shape:
        kept["members"] = {name: member(of) for name, of in sorted(shape["members"].items())}
    if "member" in shape:
        kept["member"] = member(shape["member"])
    if shape.get("flattened"):
        kept["flattened"] = True
    if len(shape.get("enum", [])) in range(1, LONGEST_ENUMERATION + 1):
        kept["enum"] = sorted(shape["enum"])
    return kept


def reach(model, name, kept):
    if name not in kept:
        shape = model["shapes"][name]
        kept[name] = facts(shape)
        inner = list(shape.get("members", {}).values()) + ([shape["member"]] if "member" in shape else [])
        for of in inner:
            reach(model, of["shape"], kept)


def extract(service, actions):
    model = botocore.loaders.create_loader().load_service_model(service, "service-2")
    shapes, operations = {}, {}
    for action in actions:
        described = model["operations"][action]
        operation = {}
        for side in ("input", "output"):
            if side in described:
                operation[side] = described[side]["shape"]
                reach(model, operation[side], shapes)
        if "resultWrapper" in described.get("output", {}):
            operation["resultWrapper"] = described["output"]["resultWrapper"]
        operations[action] = operation
    metadata = model["metadata"]
    return {
        "source": f"botocore {botocore.__version__}",
        "version": metadata["apiVersion"],
        "protocol": metadata["protocol"],
        "operations": operations,
        "shapes": dict(sorted(shapes.items())),
    }


def lines(extract):
    """A shape a line, so that a difference can be read."""

    def dump(value):
        return json.dumps(value, sort_keys=True)

    for key in ("source", "version", "protocol"):
        yield f"  {dump(key)}: {dump(extract[key])},"
    for key, comma in (("operations", ","), ("shapes", "")):
        yield f"  {dump(key)}: {{"
        entries = [f"    {dump(name)}: {dump(value)}" for name, value in extract[key].items()]
        yield ",\n".join(entries)
        yield f"  }}{comma}"


FOLDER.mkdir(exist_ok=True)
for service, actions in ACTIONS.items():
    (FOLDER / f"{service}.json").write_text("{\n" + "\n".join(lines(extract(service, actions))) + "\n}\n")
