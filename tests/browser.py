"""Headless Chromium by the DevTools protocol over a pipe: pages of any width, clicks and typing.

A window of headless Chromium is at least 500 pixels wide; the protocol sets any width.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Browser"]

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
LONGEST = 60.0  # seconds for an answer
# Until the page is drawn: its scripts have run, and two frames follow.
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


class Browser:
    """One page in one process; use it in a `with`.

    Args:
        folder: Where Chromium keeps its profile.

    Attributes:
        said: Errors and warnings of the pages so far.

    Example:
        >>> with Browser(tmp_path) as browser:
        ...     browser.open("file:///page.html", 420, 900)
        ...     browser.evaluate("innerWidth")
    """

    def __init__(self, folder: Path) -> None:
        if CHROMIUM is None:
            pytest.skip("no Chromium in PATH: install the package `chromium` to test pages")
        self.said: list[str] = []
        self._number, self._rest = 0, b""
        self._session: dict[str, str] = {}
        (theirs_in, self._to), (self._from, theirs_out) = os.pipe(), os.pipe()
        # Chromium reads file descriptor 3 and writes 4; ours must not be either of them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]
        log = str(folder / "chromium.log")
        how = os.O_WRONLY | os.O_CREAT
        self._process = os.posix_spawn(
            CHROMIUM,
            [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, log, how, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, log, how, 0o600),
                (os.POSIX_SPAWN_DUP2, ends[0], 3),
                (os.POSIX_SPAWN_DUP2, ends[1], 4),
            ],
        )
        for end in (*ends, theirs_in, theirs_out):
            os.close(end)

    def __enter__(self) -> Browser:
        try:
            made = self.call("Target.createTarget", url="about:blank")
            joined = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
            self._session = {"sessionId": joined["sessionId"]}
            for part in ("Page", "Runtime", "Log"):
                self.call(f"{part}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._session = {}
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):  # it does not answer
            os.kill(self._process, signal.SIGKILL)
        finally:
            for end in (self._to, self._from):
                os.close(end)
            os.waitpid(self._process, 0)

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": values, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer: dict[str, Any] = {}

        def answered() -> bool:
            answer.update(self._next())
            return answer.get("id") == self._number

        self._until(answered, method)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def open(self, address: str, width: int, height: int, dark: bool = False) -> None:
        """Load a page in a window of this width, and wait until it is drawn."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")
        self.evaluate(DRAWN)
        assert self.evaluate("innerWidth") == width

    def evaluate(self, steps: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        how = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=steps, **how)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> Any:
        """The first value of an expression that is not false."""
        found: list[Any] = [None]

        def true() -> bool:
            time.sleep(0.05)
            with suppress(AssertionError):  # the page may just go to another
                found.append(self.evaluate(condition))
            return bool(found[-1])

        self._until(true, condition)
        return found[-1]

    def type(self, text: str) -> None:
        """Press the keys of a text, one after the other, wherever the focus is."""
        for key in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=key, key=key)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def press(self, selector: str) -> None:
        """Press the left button of the mouse on the first element that a selector finds."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{place}.scrollIntoView({{ block: 'nearest' }})")
        middle = "(({ x, y, width: w, height: h }) => [x + w / 2, y + h / 2])"
        x, y = self.evaluate(f"{middle}({place}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            how = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", **how)

    def picture(self, path: Path) -> None:
        """Keep the whole page as a PNG, to look at."""
        made = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(made["data"]))

    def _until(self, true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LONGEST
        while not true():
            assert time.monotonic() < end, f"no answer in {LONGEST:.0f} s: {what}"

    def _next(self) -> dict[str, Any]:
        """The next message, or nothing for now; events are noted."""
        if b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], 1.0)
            read = os.read(self._from, 2**16) if ready else b""
            assert read or not ready, "Chromium ended; chromium.log in its folder may say why"
            self._rest += read
        if b"\0" not in self._rest:
            return {}
        line, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, values: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.said.append(str(values["exceptionDetails"]))
        elif event == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.said.append(values["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.said.append(str(values["args"]))
