#!/usr/bin/env python3
"""Prints what the program is made of, as CycloneDX 1.5, from Cargo.lock: nothing that only tests need."""
import json
import subprocess

targets = ["--filter-platform", "x86_64-unknown-linux-gnu"]
metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--locked", "--format-version", "1", *targets]))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}


def needed(id):
    """What is linked in: dependencies that are neither of tests nor of the build alone."""
    return [dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]


def reference(id):
    return f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"


root = metadata["resolve"]["root"]
found, open_ends = set(), [root]
while open_ends:
    id = open_ends.pop()
    if id not in found:
        found.add(id)
        open_ends += needed(id)


def component(id):
    package = packages[id]
    told = {"type": "library", "bom-ref": reference(id), "name": package["name"], "version": package["version"]}
    told["purl"] = reference(id)
    if package["license"]:
        told["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["repository"]:
        told["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return told


program = component(root) | {"type": "application"}
print(json.dumps({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": program},
    "components": [component(id) for id in sorted(found - {root}, key=reference)],
    "dependencies": [
        {"ref": reference(id), "dependsOn": sorted({reference(dep) for dep in needed(id)})}
        for id in sorted(found, key=reference)
    ],
}, indent=1))
