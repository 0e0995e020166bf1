#!/usr/bin/env python3
"""Prints what a built program is made of, as CycloneDX 1.5: the crates of Cargo.lock that are linked in for this machine
(nothing that only tests or the compiler need), and the shared libraries it asks for, by the Debian package they are of.
  sbom.py BINARY"""
import json
import os
import re
import subprocess
import sys


def output(*command):
    return subprocess.check_output(command, text=True)


def host():
    return re.search(r"^host: (\S+)$", output("rustc", "-vV"), re.M)[1]


target = os.environ.get("CARGO_BUILD_TARGET") or host()
metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}


def is_linked(id):
    """A procedural macro runs in the compiler, and so does what it depends on."""
    return not any("proc-macro" in part["kind"] for part in packages[id]["targets"])


def needed(id):
    """What is linked in: dependencies that are neither of tests nor of the build alone."""
    linked = [dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return [dep for dep in linked if is_linked(dep)]


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


def owner(path):
    """Returns the Debian package that a file is of, with its version and architecture."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr"), path):
        asked = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if asked.returncode == 0:
            package = asked.stdout.split(": ")[0]
            return output("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", package).split()
    sys.exit(f"{path} is of no package")


def library(name, path):
    package, version, architecture = owner(path)
    purl = f"pkg:deb/debian/{package}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
    told = {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl}
    return told | {"properties": [{"name": "portcullis:shared-library", "value": name}]}


shared = re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", sys.argv[1]), re.M)
by_package = {told["bom-ref"]: told for told in (library(name, path) for name, path in sorted(shared))}
libraries = [by_package[ref] for ref in sorted(by_package)]
program = component(root) | {"type": "application"}
depends = {id: {reference(dep) for dep in needed(id)} for id in found}
depends[root] |= by_package.keys()
print(json.dumps({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": program},
    "components": [component(id) for id in sorted(found - {root}, key=reference)] + libraries,
    "dependencies": [{"ref": reference(id), "dependsOn": sorted(depends[id])} for id in sorted(found, key=reference)],
}, indent=1))
