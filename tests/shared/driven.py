"""Drives a page in headless Chromium by real keys, over its pipe, and takes what it downloads."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from headless import BROWSER, FLAGS

_CODES = {
    "Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8,
}  # fmt: skip
_TEXTS = {"Enter": "\r", "Space": " "}
_SHIFT = 8
_MOST_READS = 100_000


class Driven:
    """One page; every call waits for its answer, and so for what it did."""

    def __init__(self, written: int, read: int, downloads: Path) -> None:
        self.downloads = downloads
        self._written, self._read = written, read
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads), eventsEnabled=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something over the pipe."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._written, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, _MOST_READS)
            assert part, "the browser is gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def until(self, method: str, **params: Any) -> dict[str, Any]:
        """Wait for an event whose parameters are these."""
        while True:
            found = next((one for one in self._events if _fits(one, method, params)), None)
            if found is not None:
                self._events.remove(found)
                return found["params"]
            self._events.append(self._next())

    def open(self, file: Path, place: str = "", *, width: int = 1280, dark: bool = False) -> None:
        """Open a page from disk."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=f"{file.as_uri()}#{place}" if place else file.as_uri())
        self.until("Page.loadEventFired")

    def says(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys one after the other, as a keyboard does."""
        for key in keys:
            known = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": _CODES[key]}
            typed = {"text": _TEXTS[key]} if key in _TEXTS else {}
            modifiers = _SHIFT if shift else 0
            for kind in ("keyDown" if typed else "rawKeyDown", "keyUp"):
                text = typed if kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, modifiers=modifiers, **known, **text)

    def types(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def downloaded(self) -> tuple[str, str]:
        """Return the name and the text of the file that is downloaded next."""
        begun = self.until("Browser.downloadWillBegin")
        self.until("Browser.downloadProgress", guid=begun["guid"], state="completed")
        file = self.downloads / begun["suggestedFilename"]
        return file.name, file.read_bytes().decode("utf-8")


def _fits(event: dict[str, Any], method: str, params: dict[str, Any]) -> bool:
    return event.get("method") == method and all(event["params"].get(name) == value for name, value in params.items())


@contextmanager
def driven(scratch: Path) -> Iterator[Driven]:
    """Start a browser, and end it."""
    assert BROWSER is not None
    profile, downloads = (Path(mkdtemp(prefix=name, dir=scratch)) for name in ("profile-", "downloads-"))
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    flags = [one for one in FLAGS if "virtual-time" not in one and "logging" not in one]
    # Chromium reads from 3 and writes to 4.
    command = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
    browser = subprocess.Popen(
        [
            "bash",
            "-c",
            command,
            BROWSER,
            *flags,
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ],
        pass_fds=(from_us, to_us),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(from_us)
    os.close(to_us)
    try:
        yield Driven(to_browser, from_browser, downloads)
    finally:
        browser.terminate()
        browser.wait(timeout=30)
        os.close(to_browser)
        os.close(from_browser)
