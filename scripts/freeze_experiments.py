"""Writes what every experiment's name and version stand for; an old entry is kept, and never changed unless asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tinsmith.cli.registered import EXPERIMENTS
from tinsmith.lab.experiment.experiment import make_plan, plan_fingerprint

FROZEN = Path(__file__).parents[1] / "tests" / "lab" / "experiment" / "fingerprints.json"


def fingerprints() -> dict[str, dict[str, str]]:
    """Return the fingerprints of experiments without overrides, by `name@version` and size."""
    return {
        one.full_name: {
            at.value: plan_fingerprint(make_plan(one, {"at": at.value})) for at in one.subject.kinds[one.kind].places
        }
        for one in EXPERIMENTS.values()
    }


def main() -> int:
    """Add what is new; refuse what changed under the same version, unless `--again` says it was never released."""
    frozen = json.loads(FROZEN.read_text(encoding="utf-8")) if FROZEN.exists() else {}
    found = fingerprints()
    changed = [
        name
        for name, by_place in found.items()
        if any(frozen.get(name, {}).get(at, sha) != sha for at, sha in by_place.items())
    ]
    if changed and "--again" not in sys.argv[1:]:
        print(f"raise the version of {', '.join(changed)}: the name means something else now")
        return 1
    FROZEN.write_text(json.dumps({**frozen, **found}, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
