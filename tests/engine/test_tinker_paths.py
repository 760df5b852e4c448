from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath, from_folder
from tinsmith.types.errors import InputError

STATE = Path("/state")
NAMES = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", fullmatch=True)
SESSIONS = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}", fullmatch=True)


def test_a_path_names_a_folder_below_the_state() -> None:
    path = TinkerPath.parse("tinker://abc:train:0/sampler_weights/step-10")
    assert path == TinkerPath(session="abc:train:0", kind=CheckpointKind.SAMPLER_WEIGHTS, name="step-10")
    assert path.folder(STATE) == Path("/state/abc%3Atrain%3A0/sampler_weights/step-10")


@given(SESSIONS, st.sampled_from(CheckpointKind), NAMES)
def test_paths_and_folders_both_give_the_path_back(session: str, kind: CheckpointKind, name: str) -> None:
    path = TinkerPath(session=session, kind=kind, name=name)
    folder = path.folder(STATE)
    assert TinkerPath.parse(str(path)) == path
    assert from_folder(folder.parts[-3], kind, folder.name) == path
    assert ":" not in str(folder)
    assert len(folder.parts) == 5


@given(st.text())
def test_no_text_leaves_the_state(text: str) -> None:
    for candidate in (text, f"tinker://{text}/weights/a", f"tinker://a/weights/{text}"):
        try:
            folder = TinkerPath.parse(candidate).folder(STATE)
        except InputError:
            continue
        assert folder.resolve() == folder
        assert folder.parents[2] == STATE


@pytest.mark.parametrize(
    "text",
    [
        "tinker://a/weights/..",
        "tinker://../weights/b",
        "tinker://a/weights/.hidden",
        "tinker://a/weights/b/c",
        "tinker://a/external_weights/b",
        "tinker://a/weights/",
        "tinker:///weights/b",
        "tinker://a/weights/b\n",
        "tinker://a/weights/" + "b" * 129,
        "tinker://a%3A/weights/b",
        "http://a/weights/b",
        "a/weights/b",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed"):
        TinkerPath.parse(text)


@pytest.mark.parametrize("folder", ["a:b", "a%3a", ".a", "%3A%"])
def test_a_folder_that_no_session_is_kept_in_stands_for_none(folder: str) -> None:
    assert from_folder(folder, CheckpointKind.WEIGHTS, "a") is None
