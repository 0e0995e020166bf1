#!/usr/bin/env python3
"""Measures the gateway beside a bare Pingora proxy (P) and nginx, paired in one run.

Usage: run.py [--rounds N] [--seconds S] [--only WORKLOAD ...] [--peers-only] [--no-memory]

Every workload is measured for each server in turn, round after round, so that whatever else the
machine does meets all of them alike; the middle of three rounds counts, and what matters are the
ratios to P. Core 0 runs the server under test, core 1 the provider and the clients. The gateway
runs its embedded defaults: both directions scanned, policy and audit on. Figures also go to
target/bench/compare.json. The exit code is 1 if a server refused anything: a refusal is not speed.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target/release"
LOAD = RELEASE / "examples/load"
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")

NEXT_TURN = "128 KB, next turn"
SENT_AGAIN = "128 KB, sent again"
OF_CODE = "128 KB of code"
# name: (mode, body, bytes, connections, more arguments)
WORKLOADS = {
    "2 KB": ("closed", 2 << 10, 16, []),
    "16 KB": ("closed", 16 << 10, 16, []),
    "128 KB": ("closed", 128 << 10, 8, []),
    NEXT_TURN: ("closed", 128 << 10, 8, []),
    SENT_AGAIN: ("closed", 128 << 10, 8, []),
    OF_CODE: ("closed", 128 << 10, 8, []),
    "1,000/s of 2 KB": ("rate", 2 << 10, 16, ["1000"]),
    "paced stream": ("paced", 1 << 10, 20, []),
}
# Who speaks in a chat, and how many messages are new in each request of a workload, if not all.
ROLES = ["system", "user", "assistant", "user", "assistant", "user"]
NEW_MESSAGES = {NEXT_TURN: 1, SENT_AGAIN: 0}
# Streams that are open at once when memory is measured, and for how long until it is.
SLOW_STREAMS = 500
SLOW_STREAMS_S = 6
GATEWAY_CONFIG = """
[proxy]
listen = "127.0.0.1:0"
threads = 1
max_requests_per_connection = 1000000
[admin]
listen = "127.0.0.1:0"
[store]
path = "DIRECTORY/state"
[limits.tiers.community]
requests_per_minute = 0
burst = 0
[[routes]]
name = "bench"
path_prefix = "/"
upstream = "http://UPSTREAM"
dialect = "auto"
policy = "default"
"""
WORDS = """the of and to in is was for on that with as by at from it an be this are or his her which were not have their has but
its also one two first after other new time who they some when there can more out up into only about over than them would so most
harbour boat market bridge stone river autumn baker window kitchen letter neighbour winter orchard lantern station village teacher
carry build write open close follow lead turn wait learn visit answer measure compare explain describe quietly slowly early late
small bright heavy narrow distant familiar careful honest plain warm cold wooden question reason method result pattern sample""".split()


def sources():
    """This project's own source code, of the parts that hold no keys, people or attacks to be found."""
    files = [path for part in ("admin", "llm", "proxy", "store") for path in (ROOT / "src" / part).rglob("*.rs")]
    return "".join(path.read_text() for path in sorted(files) if "test" not in path.name)


def body(size, stream, slow=False, new_messages=len(ROLES), of_code=False):
    """A chat of several messages of ordinary prose, or of code, of that many bytes; the same on every run.

    The first word of each of the last `new_messages` is another one in each request: the gateway knows texts that it
    found clean before, and those that are new must be read.
    """
    source = random.Random(size)
    code = iter(sources()) if of_code else iter(())

    def text_of(length, is_new):
        text = "qzq" + 12 * "a" + " " if is_new else ""
        text += "".join(itertools.islice(code, length - len(text)))
        while len(text) < length:
            sentence = " ".join(source.choice(WORDS) for _ in range(source.randint(7, 19)))
            text += sentence.capitalize() + source.choice([". ", ". ", "? ", ".\n"])
        return text[:length]

    each = size // len(ROLES)
    is_new = lambda at: at >= len(ROLES) - new_messages
    messages = [{"role": role, "content": text_of(each, is_new(at))} for at, role in enumerate(ROLES)]
    chat = {"model": "bench", "messages": messages, "stream": stream}
    if slow:
        chat["slow"] = True
    written = json.dumps(chat, separators=(",", ":"))
    while len(written) > size:
        longest = max(messages, key=lambda message: len(message["content"]))
        longest["content"] = longest["content"][:-max(1, (len(written) - size) // 4)]
        written = json.dumps(chat, separators=(",", ":"))
    return written.encode()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(address, process, limit_s=60):
    host, port = address.split(":")
    for _ in range(limit_s * 100):
        if process.poll() is not None:
            sys.exit(f"{process.args[-1]} ended with {process.returncode} before it listened")
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    sys.exit(f"nothing listens on {address}")


def pinned(core, command):
    if os.cpu_count() > 1 and shutil.which("taskset"):
        return ["taskset", "-c", str(core), *map(str, command)]
    return list(map(str, command))


class Servers:
    """The servers under test and the provider, all of them ended with this object."""

    def __init__(self, directory):
        self.directory, self.started, self.under_test = directory, [], {}
        self.upstream = f"127.0.0.1:{free_port()}"
        provider = self.spawn(1, [LOAD, "upstream", self.upstream])
        listening(self.upstream, provider)
        self.provider = provider.pid

    def spawn(self, core, command):
        log = open(self.directory / f"{Path(str(command[0])).name}.log", "wb")
        process = subprocess.Popen(pinned(core, command), stdout=log, stderr=log, cwd=self.directory)
        self.started.append(process)
        return process

    def bare(self):
        address = f"127.0.0.1:{free_port()}"
        process = self.spawn(0, [RELEASE / "examples/bare_proxy", address, self.upstream])
        listening(address, process)
        self.under_test["P"] = (address, process.pid)

    def nginx(self):
        if not shutil.which("nginx"):
            return
        address = f"127.0.0.1:{free_port()}"
        text = (ROOT / "benches/compare/nginx.conf").read_text()
        for name, value in (("DIRECTORY", str(self.directory)), ("LISTEN", address), ("UPSTREAM", self.upstream)):
            text = text.replace(name, value)
        (self.directory / "nginx.conf").write_text(text)
        process = self.spawn(0, ["nginx", "-p", self.directory, "-c", self.directory / "nginx.conf"])
        listening(address, process)
        self.under_test["nginx"] = (address, process.pid)

    def gateway(self):
        text = GATEWAY_CONFIG.replace("DIRECTORY", str(self.directory)).replace("UPSTREAM", self.upstream)
        (self.directory / "gateway.toml").write_text(text)
        ready = self.directory / "ready.json"
        process = self.spawn(0, [RELEASE / "portcullis", "run", "--config", self.directory / "gateway.toml",
                                 "--ready-file", ready])
        for _ in range(6000):
            try:
                address = json.loads(ready.read_text())["proxy"]
                break
            except (OSError, ValueError, KeyError):
                if process.poll() is not None:
                    sys.exit("the gateway did not start:\n" + (self.directory / "portcullis.log").read_text())
                time.sleep(0.01)
        else:
            sys.exit("the gateway was not ready within a minute")
        self.under_test["gateway"] = (address, process.pid)

    def end(self):
        for process in self.started:
            process.terminate()
        for process in self.started:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()


def cpu_us(pid):
    """User and system time of a process and of its children, in microseconds (10 ms resolution)."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid or int(fields[1]) == pid:
            total += (int(fields[11]) + int(fields[12])) * TICK_US
    return total


def busy_us():
    """Time that all cores spent on anything, in microseconds."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return (sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])) * TICK_US


def measure(server, workload, seconds, bodies, provider):
    address, pid = server
    mode, size, connections, more = WORKLOADS[workload]
    ours = lambda: cpu_us(pid) + cpu_us(provider) + sum(os.times()[2:4]) * 1e6
    before, ours_before, busy_before = cpu_us(pid), ours(), busy_us()
    command = [LOAD, mode, address, bodies[workload], seconds, connections, *more]
    run = subprocess.run(pinned(1, command), capture_output=True, text=True, check=True)
    result = json.loads(run.stdout)
    units = result["events"] if mode == "paced" else result["answers"]
    result["cpu_us"] = (cpu_us(pid) - before) / max(units, 1)
    others = busy_us() - busy_before - (ours() - ours_before)
    result["others"] = max(others, 0) / (result["seconds"] * 1e6 * os.cpu_count())
    result["per_second"] = units / result["seconds"]
    return result


def held_bytes(pid):
    """Memory of a process and of its children: its own pages, and its share of those it shares."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.parent.name) != pid and int(stat.read_text().rsplit(")", 1)[1].split()[1]) != pid:
                continue
            rollup = (stat.parent / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def memory(servers, path):
    """What each server holds while idle, and what each open slow stream adds once all have had an event."""
    results = {}
    for name, (address, pid) in servers.under_test.items():
        idle = held_bytes(pid)
        command = [LOAD, "paced", address, path, 60, SLOW_STREAMS]
        clients = subprocess.Popen(pinned(1, command), stdout=subprocess.DEVNULL)
        try:
            time.sleep(SLOW_STREAMS_S)
            held = held_bytes(pid)
        finally:
            clients.kill()
            clients.wait()
        results[name] = {"idle_bytes": idle, "stream_bytes": (held - idle) / SLOW_STREAMS}
    return results


def report_memory(results):
    print(f"\n{'memory':<17} {'server':<8} {'idle MiB':>9} {'÷ P':>6} {'KiB a slow stream':>18} {'÷ P':>6}")
    base = results["P"]
    for name, row in results.items():
        ratio = lambda key: row[key] / base[key] if base[key] else float("nan")
        print(f"{f'{SLOW_STREAMS} streams':<17} {name:<8} {row['idle_bytes'] / 2**20:>9.1f} {ratio('idle_bytes'):>6.2f} "
              f"{row['stream_bytes'] / 2**10:>18.1f} {ratio('stream_bytes'):>6.2f}")
    print("An event a second each. Idle: all packs loaded, before the first request.")


def middle(rounds):
    return {key: median(result[key] for result in rounds) for key in rounds[0]}


def report(results):
    print(f"{'workload':<17} {'server':<8} {'/s':>9} {'÷ P':>6} {'CPU µs':>8} {'over P':>8} {'÷ P':>6} "
          f"{'p50 µs':>8} {'over P':>8} {'p99 µs':>8} {'÷ P':>6} {'others':>7}")
    for workload, servers in results.items():
        base = servers["P"]
        for name, row in servers.items():
            ratio = lambda key: row[key] / base[key] if base[key] else float("nan")
            print(f"{workload:<17} {name:<8} {row['per_second']:>9.0f} {ratio('per_second'):>6.2f} "
                  f"{row['cpu_us']:>8.1f} {row['cpu_us'] - base['cpu_us']:>+8.1f} {ratio('cpu_us'):>6.2f} "
                  f"{row['p50_us']:>8.0f} {row['p50_us'] - base['p50_us']:>+8.0f} {row['p99_us']:>8.0f} "
                  f"{ratio('p99_us'):>6.2f} {row['others']:>7.0%}")
    print("others: the part of all cores that went to processes outside the comparison; above 10 %, measure again.")
    print("Paced stream: per event, delay from the provider's write to the client's read.")


def main():
    parser = argparse.ArgumentParser(description="Measures the gateway beside a bare proxy and nginx.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--peers-only", action="store_true", help="without the gateway")
    parser.add_argument("--no-memory", action="store_true", help="without the memory of slow streams")
    options = parser.parse_args()

    directory = Path(tempfile.mkdtemp(prefix="portcullis-bench-"))
    bodies = {}
    for at, (name, (mode, size, _, _)) in enumerate(WORKLOADS.items()):
        bodies[name] = directory / f"{at}.json"
        new_messages = NEW_MESSAGES.get(name, len(ROLES))
        bodies[name].write_bytes(body(size, mode == "paced", new_messages=new_messages, of_code=name == OF_CODE))
    slow_path = directory / "slow.json"
    slow_path.write_bytes(body(1 << 10, True, slow=True))
    servers = Servers(directory)
    results, refused = {}, 0
    try:
        servers.bare()
        servers.nginx()
        if not options.peers_only:
            servers.gateway()
        names = list(servers.under_test)
        held = {} if options.no_memory else memory(servers, slow_path)
        for name in names:  # fills connection pools, caches and branch predictors
            measure(servers.under_test[name], "2 KB", 1, bodies, servers.provider)
        for workload in options.only:
            rounds = {name: [] for name in names}
            for number in range(options.rounds):
                for name in names[number % len(names):] + names[:number % len(names)]:
                    rounds[name].append(measure(servers.under_test[name], workload, options.seconds, bodies, servers.provider))
            results[workload] = {name: middle(all_rounds) for name, all_rounds in rounds.items()}
            for name, all_rounds in rounds.items():
                bad = sum(result["refused"] + result["errors"] for result in all_rounds)
                refused += bad
                if bad:
                    print(f"{name} refused or broke off {bad} of {workload}", file=sys.stderr)
    finally:
        servers.end()
        shutil.rmtree(directory, ignore_errors=True)
    report(results)
    if held:
        report_memory(held)
    kept = ROOT / "target/bench"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "compare.json").write_text(json.dumps(results | ({"memory": held} if held else {}), indent=1))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
