"""What the installed SDK can send is recorded, every line once and none too many."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "newest_sdk.py"


def test_the_installed_sdk_is_the_recorded_one() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--installed"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " 0 new, 0 gone, 0 unknown " in done.stdout
