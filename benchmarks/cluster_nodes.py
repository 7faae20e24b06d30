"""Nodes of a Ray cluster that have a network of their own each, on one machine.

Every node is a network namespace with one address; a bridge in the namespace of the head joins
them, and nothing else can be reached from there. Only root can make them, with `ip` of iproute2.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PORT = 6379
STORE = 80 * 2**20  # bytes, Ray's store of objects
PATIENCE = 300.0  # seconds for a node to start
RAY = "import sys; from ray.scripts.scripts import main; sys.exit(main())"


def why_not() -> str | None:
    """The reason why this machine cannot make such nodes, if there is one."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (package iproute2)"
    name = f"dims-{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "switch", "type", "bridge")
        _ip("link", "add", "port", "netns", name, "type", "veth", "peer", "eth9", "netns", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made here ({error.stderr.strip()})"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
    return None


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


class Node:
    """One network namespace, and the processes in it. Number 1 is the head, without a CPU."""

    def __init__(self, number: int, place: Path, environment: dict[str, str]) -> None:
        self.number = number
        self.name = f"dims-{os.getpid()}-{number}"
        self.address = f"10.77.0.{number}"
        self.place, self.environment = place, environment
        self.starts = 0
        self.starting: subprocess.Popen[bytes] | None = None
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        # What a process finds of itself in /proc/self/ns/net.
        self.namespace = os.stat(f"/run/netns/{self.name}").st_ino

    def join(self, head: Node) -> None:
        """A cable to the bridge of the head."""
        port = f"port{self.number}"
        ends = ("type", "veth", "peer", "eth0", "netns", self.name)
        _ip("link", "add", port, "netns", head.name, *ends)
        _ip("-n", head.name, "link", "set", port, "master", "switch", "up")
        self.use("eth0")

    def use(self, device: str) -> None:
        _ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", device)
        _ip("-n", self.name, "link", "set", device, "up")

    def run(self, *command: str, **how: object) -> subprocess.Popen[bytes]:
        """A program inside; the process is the program itself."""
        inside = ["ip", "netns", "exec", self.name, *command]
        return subprocess.Popen(inside, env=self.environment, **how)  # type: ignore[call-overload]

    def start(self, head: Node) -> None:
        """Begin to start Ray; `wait` says when it has."""
        self.starts += 1
        folder = self.place / f"{self.number}.{self.starts}"
        role = ["--address", f"{head.address}:{PORT}", "--num-cpus", "1"]
        if head is self:
            role = ["--head", "--port", str(PORT), "--num-cpus", "0", "--include-dashboard=false"]
        common = ["--node-ip-address", self.address, "--object-store-memory", str(STORE)]
        command = [sys.executable, "-c", RAY, "start", *role, *common, "--temp-dir", str(folder)]
        with (self.place / f"{self.number}.{self.starts}.log").open("wb") as log:
            self.starting = self.run(*command, stdout=log, stderr=log)

    def wait(self) -> None:
        assert self.starting is not None
        if self.starting.wait(timeout=PATIENCE) != 0:
            log = self.place / f"{self.number}.{self.starts}.log"
            raise RuntimeError(f"{self.name} did not start: {log.read_text()[-2000:]}")

    def kill(self, spare: Collection[int] = ()) -> None:
        """kill -9 of every process inside, save those that are spared."""
        while left := [pid for pid in self.processes() if pid not in spare]:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        if self.starting is not None:
            self.starting.poll()

    def processes(self) -> list[int]:
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]

    def remove(self) -> None:
        self.kill()
        _ip("netns", "del", self.name)


class Cluster:
    """A head and some nodes with one CPU each, numbered from 2."""

    def __init__(self, place: Path, environment: dict[str, str]) -> None:
        self.head = Node(1, place, environment)
        self.nodes: list[Node] = []

    @property
    def address(self) -> str:
        return f"{self.head.address}:{PORT}"

    def lay(self, nodes: int) -> None:
        """The network."""
        _ip("-n", self.head.name, "link", "add", "switch", "type", "bridge")
        self.head.use("switch")
        for number in range(2, 2 + nodes):
            node = Node(number, self.head.place, self.head.environment)
            self.nodes.append(node)
            node.join(self.head)

    def start(self) -> None:
        """Ray on all nodes, the head first; also again, after all have died."""
        self.head.start(self.head)
        self.head.wait()
        for node in self.nodes:
            node.start(self.head)
        for node in self.nodes:
            node.wait()

    def remove(self) -> None:
        for node in (*self.nodes, self.head):
            node.remove()


@contextmanager
def cluster_of(nodes: int, settings: dict[str, str]) -> Iterator[Cluster]:
    """A running cluster. All its processes share a token that nobody else has."""
    place = Path(tempfile.mkdtemp(prefix="ray"))
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    cluster = Cluster(place, {**os.environ, **token, **settings})
    try:
        cluster.lay(nodes)
        cluster.start()
        yield cluster
    finally:
        cluster.remove()
        shutil.rmtree(place, ignore_errors=True)
