"""What a server tells of a mixture's routing, which runs keep in their manifests."""

import asyncio
from pathlib import Path
from typing import Any, cast

from loopback import KEPT
from tinsmith.engine.engine import Engine
from tinsmith.server.rest.listing import Listing
from tinsmith.server.service import Service

NANO, MIXTURE = "tinsmith/nano", "tinsmith/moe-nano"


def test_only_a_mixture_tells_how_it_routes(tmp_path: Path) -> None:
    async def told() -> dict[str, dict[str, Any]]:
        engine = Engine({NANO: NANO, MIXTURE: MIXTURE}, kept=KEPT)
        service = Service(engine, tmp_path / "state", seed=0, max_queue=16)
        listing = Listing(service.store, service.engine, service.state, service.runs.external)
        models = cast(list[dict[str, Any]], listing.capabilities()["supported_models"])
        await service.close()
        return {model["model_name"]: model["identity"] for model in models}

    identities = asyncio.run(told())
    assert "routes" not in identities[NANO]
    assert identities[MIXTURE]["routes"] == (
        "2 of 8 experts, equal logits to the lower one; a token's are the same in every batch, sampled and trained"
    )
