"""A nano base that is a mixture of experts, built as any other."""

from pathlib import Path

import pytest

from tinsmith.lab.base_recipe import BaseRecipe
from tinsmith.lab.nano_base import build_base
from tinsmith.models.folders.folder import read_weights, weights_fingerprint
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.presets import PRESETS
from tinsmith.renderers.renderer import Message, Role

pytestmark = pytest.mark.whole

RECIPE = BaseRecipe(preset="moe-nano", num_layers=1, vocab_size=320, steps=3, batch_size=4, warm_up=1)
TOLD = [
    (Message(role=Role.USER, content=f"What is {n} and {n}?"), Message(role=Role.ASSISTANT, content=f"{2 * n}."))
    for n in range(8)
]


def test_a_mixture_is_a_nano_base_and_the_same_again(tmp_path: Path) -> None:
    words: list[tuple[int, int, float]] = []
    build_base(RECIPE, TOLD, tmp_path / "one", say=lambda *told: words.append(told))
    build_base(RECIPE, TOLD, tmp_path / "two")
    config = read_config(tmp_path / "one")
    assert config.mixture == PRESETS["moe-nano"].mixture
    assert words[-1][2] < words[0][2]
    hashes = {weights_fingerprint(read_weights(tmp_path / name, config)) for name in ("one", "two")}
    assert len(hashes) == 1
