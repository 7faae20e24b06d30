from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dims_paper.datasets.download import DownloadError, fetch
from dims_paper.datasets.locate import DataNotFoundError, FileState, check
from dims_paper.datasets.registry import DATASETS, DataFile, Dataset

CONTENT = b"1.0,2.0,1\n" * 300_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        body = {
            "/good": CONTENT,
            "/truncated": CONTENT[:-100],
            "/flipped": b"2" + CONTENT[1:],
            "/longer": CONTENT + b"1",
            "/empty": b"",
            "/cut": CONTENT[:1000],
        }[self.path]
        self.send_response(200)
        # "/cut" promises more than it sends, as a broken connection does.
        self.send_header("Content-Length", str(len(CONTENT if self.path == "/cut" else body)))
        self.end_headers()
        # A client that has seen enough may hang up before the last byte.
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def register(monkeypatch: pytest.MonkeyPatch, *homes: str) -> DataFile:
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = DataFile("toy/toy.csv", len(CONTENT), digest, homes)
    monkeypatch.setitem(DATASETS, "toy", Dataset("toy", "a toy", "none", (file,)))
    return file


def test_fetch_downloads_once_and_keeps_good_copies(
    empty_home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, f"{server}/good")
    (path,) = fetch("toy")
    assert path == empty_home / "toy" / "toy.csv"
    assert path.read_bytes() == CONTENT
    register(monkeypatch, f"{server}/missing")
    assert fetch("toy") == (path,)
    assert [status.state for status in check("toy")] == [FileState.OK]


def test_fetch_tries_the_homes_in_turn_and_replaces_a_damaged_copy(
    empty_home: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source.csv").write_bytes(CONTENT)
    register(monkeypatch, f"{server}/flipped", (tmp_path / "source.csv").as_uri())
    damaged = empty_home / "toy" / "toy.csv"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"half a fi")
    assert fetch("toy") == (damaged,)
    assert damaged.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("flipped", "SHA-256 is "),
        ("truncated", f"received {len(CONTENT) - 100} bytes instead of {len(CONTENT)}"),
        ("cut", "1000 bytes"),
        ("longer", f"received more bytes instead of {len(CONTENT)}"),
        ("empty", "received 0 bytes"),
        ("missing", "HTTP 404"),
    ],
)
def test_bad_downloads_leave_nothing_behind(
    page: str, reason: str, empty_home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, f"{server}/{page}")
    with pytest.raises(DownloadError) as caught:
        fetch("toy")
    message = str(caught.value)
    assert message.startswith(f"cannot fetch toy/toy.csv ({server}/{page}: ")
    assert reason in message
    assert "\n" not in message
    assert list(empty_home.rglob("*")) == [empty_home / "toy"]


@pytest.mark.usefixtures("empty_home")
def test_network_failure_is_one_line_with_every_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        # Bound but not listening: connections are refused.
        refused = f"http://127.0.0.1:{unused.getsockname()[1]}/toy.csv"
        register(monkeypatch, refused, "nonsense", "file:///no/such/file")
        with pytest.raises(DownloadError) as caught:
            fetch("toy", timeout=5.0)
    message = str(caught.value)
    assert message.count(": ") >= 3
    for home in (refused, "nonsense", "file:///no/such/file"):
        assert home in message
    assert "\n" not in message


@pytest.mark.usefixtures("empty_home")
def test_files_without_a_home_are_said_before_any_download() -> None:
    with pytest.raises(DataNotFoundError, match="no public address serves the same bytes"):
        fetch("emnist_letters")
    with pytest.raises(ValueError, match="unknown data set"):
        fetch("nothing")


def test_damaged_copy_that_would_hide_the_download_is_named(
    empty_home: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, f"{server}/good")
    monkeypatch.setenv("DIMS_DATA", str(tmp_path))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.csv").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"toy\.csv is damaged; delete it, then run"):
        fetch("toy")
    assert not empty_home.exists()


@pytest.mark.data
def test_fetch_accepts_the_files_of_dims_data(data_root: Path) -> None:
    paths = fetch("glass_clean")
    assert paths == (data_root / "uci" / "glass.csv",)
