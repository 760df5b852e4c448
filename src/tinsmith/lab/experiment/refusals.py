"""What of a plan is refused at once: before anything heavy is imported, and before anything is built or written."""

from __future__ import annotations

from tinsmith.data.slices.card import read_slice_card
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.named_model import named_model, require_own_rates
from tinsmith.lab.runs.existing_run import IfExists, require_room, settle
from tinsmith.lab.service.reach import require_server
from tinsmith.ops.cuda.device import require_gpu
from tinsmith.types.errors import DataError


def require_possible(plan: Plan) -> None:
    """Check what a run needs and is quickly looked for: its model, its data, its folder, its server and the key.

    A dry run needs no folder and no server.
    """
    where = plan.circumstances
    named_model(plan)
    require_own_rates(plan)
    if where.data is not None:
        if not where.data.is_dir():
            raise DataError(
                f"{where.data} is not a slice: there is no such folder",
                field="data",
                value=str(where.data),
                allowed="a folder that `tinsmith data slice` wrote",
            )
        read_slice_card(where.data)
    if where.dry_run:
        return
    if where.device != "cpu" and where.base_url is None:
        require_gpu(where.device)
    chosen = where.behavior_if_log_dir_exists
    if where.log_path is not None and chosen is not IfExists.ASK:  # asked once, by what runs it
        require_room(where.log_path, settle(where.log_path, chosen))
    if where.base_url is not None:
        require_server(where.base_url)
