#!/usr/bin/env python3
"""How fast one node ships its audit journal to PostgreSQL, when nothing else keeps it waiting.

Starts Debian's PostgreSQL and a gateway that shares it, stops the database's processes while `wrk` fills the journal, lets
them go on, and watches how the newest shipped entry moves until nothing waits. Prints one line of JSON.

    cargo build --release && benches/compare/shipping.py [target/release/portcullis]
"""

import glob
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

SECONDS = 30
USER = "postgres"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def as_postgres(command):
    if os.geteuid() != 0:
        return command
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *command]


def start_database(folder, port):
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    data = f"{folder}/data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    made = [f"{programs}/initdb", "-E", "UTF8", "--no-locale", "-U", "portcullis", "--auth=trust", "-D", data]
    subprocess.run(as_postgres(made), check=True, **quiet)
    run = [f"{programs}/postgres", "-D", data, "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1"]
    server = subprocess.Popen(as_postgres(run), **quiet)
    url = f"postgres://portcullis@127.0.0.1:{port}/postgres"
    psql = [f"{programs}/psql", "-X", "-A", "-t", url, "-c"]
    wait_for(lambda: subprocess.run([*psql, "SELECT 1"], **quiet).returncode == 0)
    ask = lambda sql: subprocess.run([*psql, sql], check=True, capture_output=True, text=True).stdout.strip()
    return server, url, ask


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.05)


def is_ready(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1).status == 200
    except OSError:
        return False


def children(server):
    found = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True).stdout
    return [server.pid, *map(int, found.split())]


def main():
    binary = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/portcullis").resolve()
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    state, data = f"{folder}/state", f"{folder}/postgres"
    os.mkdir(data)
    proxy, admin = free_port(), free_port()
    server, url, ask = start_database(data, free_port())
    files = {
        "postgres.url": url,
        "deployment.secret": secrets.token_hex(32),
        "ask.lua": 'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\n'
        'wrk.body = [[{"model":"m","messages":[{"role":"user","content":"Tell me about lighthouses."}]}]]\n',
        "gateway.toml": f"""
[proxy]
listen = "127.0.0.1:{proxy}"
[admin]
listen = "127.0.0.1:{admin}"
[store]
path = "{state}"
backend = "postgres"
[store.postgres]
url_file = "postgres.url"
secret_file = "deployment.secret"
tls = false
[cluster]
enabled = true
[limits.tiers.community]
requests_per_minute = 0
burst = 0
""",
    }
    for name, text in files.items():
        pathlib.Path(folder, name).write_text(text)
        os.chmod(pathlib.Path(folder, name), 0o600)
    gateway = subprocess.Popen(
        [binary, "run", "--with-sample-provider", "--config", "gateway.toml"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w"),
    )
    try:
        wait_for(lambda: is_ready(proxy))
        shipped = lambda: int(ask("SELECT coalesce(sum(seq), 0) FROM portcullis_audit_heads"))
        before = shipped()
        for process in children(server):
            os.kill(process, signal.SIGSTOP)
        load = ["wrk", "-t1", "-c32", f"-d{SECONDS}s", "-s", f"{folder}/ask.lua", f"http://127.0.0.1:{proxy}/v1/chat/completions"]
        told = subprocess.run(load, capture_output=True, text=True).stdout
        for process in children(server):
            os.kill(process, signal.SIGCONT)
        samples, began = [], time.monotonic()
        while len(samples) < 20 or samples[-1][1] > samples[-20][1] or samples[-1][1] == before:
            samples.append((time.monotonic() - began, shipped()))
            time.sleep(0.1)
        # What was waiting is done with when the last rise was; connections came back when the first was.
        rising = [at for at in range(1, len(samples)) if samples[at][1] > samples[at - 1][1]]
        first, last = samples[rising[0] - 1], samples[rising[-1]]
        entries, seconds = last[1] - first[1], last[0] - first[0]
        size = int(ask("SELECT pg_total_relation_size('portcullis_audit')"))
        journal = sum(path.stat().st_size for path in pathlib.Path(state, "audit").glob("audit-*"))
        print(json.dumps({
            "entries": entries, "seconds": round(seconds, 2), "entries_per_second": round(entries / seconds),
            "row_bytes": round(size / max(shipped(), 1)), "journal_bytes": round(journal / max(shipped(), 1)),
            "load": [line.strip() for line in told.splitlines() if "Requests/sec" in line],
            "load_average": os.getloadavg()[0],
        }))
    finally:
        gateway.terminate()
        for process in children(server):
            os.kill(process, signal.SIGCONT)
        server.terminate()
        gateway.wait()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
