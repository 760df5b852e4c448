"""Checks a page with axe-core in headless Chromium: what a reader who sees or points badly would stumble on."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest
from headless import BROWSER, FLAGS

_SPEC = find_spec("axe_core_python")
needs_axe = pytest.mark.skipif(BROWSER is None or _SPEC is None, reason="no chromium, or no axe-core, here")
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_RUN = """
addEventListener("load", () => {
  const renews = document.getElementById("renews");
  if (renews) renews.checked = false;
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  axe.run().then((found) => {
    const said = found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
      .map((one) => `${one.id}: ${one.nodes.length} as ${one.nodes[0].html.slice(0, 120)}`);
    if (document.documentElement.scrollWidth > innerWidth) said.push("wider than the window");
    parent.postMessage({ width: innerWidth, said, passed: found.passes.length }, "*");
  });
});
"""
_EACH = """
const files = FILES, found = [], frame = document.querySelector("iframe");
const next = () => {
  if (found.length < files.length) { frame.src = files[found.length]; return; }
  const made = document.createElement("pre");
  made.id = "axe-found";
  made.textContent = JSON.stringify(found);
  document.body.append(made);
};
addEventListener("message", (event) => { found.push(event.data); next(); });
next();
"""


@dataclass(frozen=True)
class Checked:
    """Findings of axe-core on one page."""

    width: int
    """Of the window, in CSS pixels."""
    said: tuple[str, ...]
    """Serious and critical findings."""
    passed: int
    """Rules that the page keeps."""


def checked(pages: Sequence[str], scratch: Path, *, width: int, dark: bool) -> list[Checked]:
    """Open pages one after the other with all their folds open, `width` pixels wide, in the light or dark scheme."""
    assert BROWSER is not None
    assert _SPEC.origin is not None
    folder = Path(mkdtemp(prefix="axe-", dir=scratch))
    shutil.copy(Path(_SPEC.origin).with_name("axe.min.js"), folder / "axe.js")
    names = [f"{place}.html" for place in range(len(pages))]
    for name, page in zip(names, pages, strict=True):
        probe = f'<script src="axe.js"></script><script>{_RUN}</script></body>'
        (folder / name).write_text(_POLICY.sub("", page).replace("</body>", probe), encoding="utf-8")
    # In a frame, as no window is as narrow as a telephone's.
    frame = f'<iframe style="width: {width}px; height: 900px; border: 0"></iframe>'
    outer = folder / "all.html"
    outer.write_text(f"<body>{frame}<script>{_EACH.replace('FILES', json.dumps(names))}</script></body>", "utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    flags = (*FLAGS, "--virtual-time-budget=120000", scheme, f"--user-data-dir={folder / 'profile'}")
    seen = subprocess.run([BROWSER, *flags, "--dump-dom", outer.as_uri()], capture_output=True, timeout=240, check=True)
    made = re.search(r'<pre id="axe-found">(.*?)</pre>', seen.stdout.decode("utf-8"), re.DOTALL)
    assert made, seen.stderr.decode("utf-8", "replace")[-2000:]
    return [Checked(one["width"], tuple(one["said"]), one["passed"]) for one in json.loads(html.unescape(made[1]))]
