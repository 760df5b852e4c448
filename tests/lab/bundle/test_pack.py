"""A run as one file: equal bytes, read by others, nothing of this machine in it; checked where nothing else is."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from made_studies import studied
from own_task import KEYS, TASK
from rocrate.rocrate import ROCrate

from command_line import Ran, command
from tinsmith.cli import main
from tinsmith.cli.registered import plan_of
from tinsmith.engine.checkpoint_files import MARKER, read
from tinsmith.lab.bundle.archive import unpack, write_archive
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.runs.files import CONFIG, LEDGER, MANIFEST, REPORT, SECTIONS
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

SAID = ("--author", "A. Author", "--license", "apache-2.0", "--date", "2026-01-02")
WITH_ALL = (*SAID, "--checkpoints", "all", "--data", "CC0-1.0")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a task whose items lie in a file, and whose words in a module, beside its own file; a key names one."""
    place = tmp_path_factory.mktemp("author")
    items = '[{"id": f"item-{n}", "n": n} for n in range(start, start + 12)]'
    source = TASK.replace(items, '"items.jsonl"').replace('"Item {n}:"', "PROMPT")
    source = source.replace("start: int = 0", "start: int = 0, words: Path = Path()")
    (place / "words.txt").write_text("words\n")
    (place / "mine.py").write_text(source.replace("from tinsmith", "from asked import PROMPT\nfrom tinsmith", 1))
    (place / "asked.py").write_text('PROMPT = "Item {n}:"\n')
    (place / "items.jsonl").write_text("".join(json.dumps({"id": f"item-{n}", "n": n}) + "\n" for n in range(12)))
    folder = place / "run"
    where = {"model_name": "tinsmith/nano", "log_path": str(folder), "words": str(place / "words.txt")}
    conduct(plan_of(str(place / "mine.py"), {**KEYS, **where}), say=unsaid)
    (folder / REPORT).write_text(f"<p>{folder.absolute()} of {place / 'mine.py'} on {place / 'words.txt'}</p>\n")
    return folder


@pytest.fixture(scope="module")
def packed(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("packed") / "run.zip"
    with suppress(SystemExit):
        main(["pack", str(original), "--out", str(file), *WITH_ALL])
    return file


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(packed, tmp_path / "run.zip"))


def clean(place: Path, *arguments: str) -> Ran:
    """Give a command in another process and folder, with a home that is empty and no way out."""
    place.mkdir(exist_ok=True)
    nowhere = "http://127.0.0.1:9"
    around = {
        **{"PATH": "/usr/bin:/bin", "HOME": str(place), "TINSMITH_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1"},
        **{"https_proxy": nowhere, "http_proxy": nowhere, "NO_PROXY": "127.0.0.1"},
    }
    line = [sys.executable, "-m", "tinsmith", *arguments]
    words = subprocess.run(line, cwd=place, env=around, capture_output=True, text=True)
    return Ran(words.returncode, words.stdout, words.stderr)


def test_two_packs_of_one_run_have_equal_bytes_wherever_it_lies(
    original: Path, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again.zip"
    copy = Path(shutil.copytree(original, tmp_path / "elsewhere" / "run"))
    ran = command(capsys, "pack", str(copy), "--out", str(again), *WITH_ALL, code=0)
    assert file_sha256(again) in ran.out
    assert bundle.read_bytes() == again.read_bytes()
    unpack(bundle, tmp_path / "unpacked")
    twice = tmp_path / "twice.zip"
    assert command(capsys, "pack", str(tmp_path / "unpacked"), "--out", str(twice), *WITH_ALL).code == 0
    assert bundle.read_bytes() == twice.read_bytes()


def test_a_base_that_was_built_here_is_named_without_its_place(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(original, tmp_path / "elsewhere" / "run"))
    for marker in copy.rglob(MARKER):
        values = json.loads(marker.read_text())
        values["base"]["name"], _ = str(Path.home() / "bases" / "0123abcd"), values.pop("sha256")
        marker.write_text(json.dumps({**values, "sha256": sha256_of(values)}))
    command(capsys, "pack", str(copy), "--out", str(tmp_path / "run.zip"), *WITH_ALL, code=0)
    unpack(tmp_path / "run.zip", tmp_path / "unpacked")
    packed = [read(marker.parent) for marker in (tmp_path / "unpacked").rglob(MARKER)]
    assert packed
    assert {one.base.name for one in packed} == {"0123abcd"}


def test_its_parts_are_there_under_their_names_and_rocrate_reads_them(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    unpack(bundle, folder)
    crate = ROCrate(folder)
    there = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    parts = {str(part.id).replace("%25", "%"): part for part in crate.root_dataset["hasPart"]}
    assert set(parts) == there - {"ro-crate-metadata.json"}
    assert {
        "config.json",
        "trace.jsonl",
        "report.html",
        "source/mine.py",
        "source/asked.py",
        "source/items.jsonl",
    } < there
    assert all(parts[name]["sha256"] == file_sha256(folder / name) for name in parts)
    assert crate.root_dataset["license"] == "apache-2.0"
    assert str(crate.root_dataset["datePublished"]) == "2026-01-02"
    assert crate.root_dataset["author"][0]["name"] == "A. Author"
    card = ModelCard.load(folder / "README.md").data.to_dict()
    assert (card["license"], card["library_name"], card["tags"][:2]) == ("apache-2.0", "peft", ["tinsmith", "lora"])
    assert "CC0-1.0" in (folder / "DATA.md").read_text()
    figures = [line.split("|")[1].strip() for line in (folder / "README.md").read_text().splitlines() if "|" in line]
    assert figures[2:4] == ["eval/reward/total", "eval_greedy/reward/total"]


def test_nothing_of_the_machine_is_in_it_and_the_page_goes_by_the_runs_name(
    original: Path, bundle: Path, tmp_path: Path
) -> None:
    unpack(bundle, tmp_path / "unpacked")
    places = (str(original.parent).encode(), str(Path.home()).encode() + b"/", sys.prefix.encode())
    for each in sorted((tmp_path / "unpacked").rglob("*")):
        assert each.is_dir() or not any(place in each.read_bytes() for place in places), each
    around = json.loads((tmp_path / "unpacked" / MANIFEST).read_text())["circumstances"]
    assert (around["task"], around["log_path"]) == ("./source/mine.py", "run")
    assert (tmp_path / "unpacked" / REPORT).read_text() == "<p>run of ./source/mine.py on ./data/words/words.txt</p>\n"


def test_it_is_audited_and_replayed_where_nothing_else_is(
    original: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = Path(shutil.move(bundle, tmp_path / "sent.zip"))
    hidden = original.parent.rename(original.parent.with_name("away"))
    try:
        audited = clean(tmp_path / "reviewer", "audit", str(elsewhere), "--steps", "2", "--seed", "1", "--json")
        assert audited.code == 0, audited
        found = json.loads(audited.out)
        assert found["passed"]
        assert len(found["drawn"]) == 2
        monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path / "reviewer")
        replayed = command(capsys, "replay", elsewhere, "--json", code=0)
        assert json.loads(replayed.out)["equal"]
    finally:
        hidden.rename(original.parent)


def test_the_other_commands_take_it_as_a_folder(
    original: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(capsys, "diff", str(bundle), str(original)).out.startswith("equal: 4 recorded steps")
    assert command(capsys, "report", str(bundle)).code == 0
    assert "Does it write letters?" in (tmp_path / "run.html").read_text()
    assert command(capsys, "unpack", str(bundle), "new").code == 0
    assert (tmp_path / "new" / CONFIG).is_file()
    refused = command(capsys, "unpack", str(bundle), "new")
    assert (refused.code, "new" in refused.err) == (2, True)


def test_without_checkpoints_and_data_the_last_adapter_alone_goes_along(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.zip"
    assert command(capsys, "pack", str(original), "--out", str(file), *SAID).code == 0
    unpack(file, tmp_path / "small")
    adapters = [each.parent.name for each in (tmp_path / "small").rglob("adapter.safetensors")]
    assert adapters == ["final"]
    command(capsys, "export", str(tmp_path / "small"), "--to", "peft", "--out", str(tmp_path / "adapter"), code=0)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    assert not list((tmp_path / "small").rglob("items.jsonl"))
    command(capsys, "audit", str(file), "--steps", "0", code=0)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (LEDGER, '{}\n{"key": "tml-0123456789abcdef0123"}\n', f"{LEDGER}, line 2: a key of a Tinker server"),
        (LEDGER, "sk-0123456789abcdef0123456789\n", "line 1: a key of an endpoint"),
        (LEDGER, "hf_" + "a" * 34 + "\n", "a token of the hub"),
        (LEDGER, "https://me:secret@host/\n", "a password in an address"),
        (LEDGER, "-----BEGIN RSA PRIVATE KEY-----\n", "a private key"),
        (SECTIONS, '[1,\n"correct horse battery"]\n', f"{SECTIONS}, line 2: the value of MY_API_TOKEN"),
        (SECTIONS, '{"file": "HERE/notes.txt"}\n', f"{SECTIONS}, line 1: a path of this machine"),
    ],
)
def test_a_secret_or_a_path_is_refused_by_file_and_line_and_not_shown(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    name: str, text: str, found: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("MY_API_TOKEN", "correct horse battery")
    folder = Path(shutil.copytree(original, tmp_path / "run"))
    (folder / name).write_text(text.replace("HERE", str(folder)))
    refused = command(capsys, "pack", str(folder), "--out", str(tmp_path / "run.zip"), *SAID, code=2)
    assert found in refused.err
    assert not any(secret in refused.err for secret in ("0123456789", "correct", "me:secret", "a" * 34))
    assert not (tmp_path / "run.zip").exists()


def test_the_date_is_that_of_the_runs_end_whenever_its_files_were_written(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(original, tmp_path / "run"))
    manifest = json.loads((copy / MANIFEST).read_text())
    assert len(manifest["ended"]) == len("2026-01-02")
    (copy / MANIFEST).write_text(json.dumps({**manifest, "ended": "2026-01-02"}))
    for number, seconds in ((1, 0.0), (2, 1e9)):
        os.utime(copy / MANIFEST, (seconds, seconds))
        command(capsys, "pack", str(copy), "--out", str(tmp_path / f"{number}.zip"), code=0)
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    unpack(tmp_path / "1.zip", tmp_path / "unpacked")
    assert str(ROCrate(tmp_path / "unpacked").root_dataset["datePublished"]) == "2026-01-02"


def test_a_bundle_with_a_file_that_its_metadata_do_not_list_is_no_bundle_as_it_was_packed(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(bundle, tmp_path / "unpacked")
    command(capsys, "audit", str(bundle), "--steps", "0", code=0)
    (tmp_path / "unpacked" / "README.md").write_text("other figures")
    (tmp_path / "unpacked" / "more.txt").write_text("more")
    there = {each.relative_to(tmp_path / "unpacked").as_posix(): each for each in (tmp_path / "unpacked").rglob("*")}
    write_archive({name: each for name, each in there.items() if each.is_file()}, tmp_path / "forged.zip")
    found = json.loads(command(capsys, "audit", str(tmp_path / "forged.zip"), "--steps", "0", "--json", code=1).out)
    assert [fault.partition(" ")[0] for fault in found["faults"]] == ["README.md", "more.txt"]


def test_what_is_no_date_is_refused(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.zip"
    refused = command(capsys, "pack", str(original), "--out", str(file), *SAID, "--date", "notadate", code=2)
    assert "notadate" in refused.err
    assert not file.exists()


def test_a_forged_value_in_a_bundle_is_found_as_in_a_folder(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "forged"
    unpack(bundle, folder)
    trace = (folder / "trace.jsonl").read_text().splitlines(keepends=True)
    (folder / "trace.jsonl").write_text("".join([trace[0], trace[2], trace[1]]))
    forged = tmp_path / "forged.zip"
    assert command(capsys, "pack", str(folder), "--out", str(forged), *WITH_ALL).code == 0
    checked = command(capsys, "audit", str(forged), "--steps", "0", code=1)
    assert "trace.jsonl: line 2 is the first" in checked.out


@pytest.mark.parametrize(
    ("name", "value"), [("base_url", "http://127.0.0.1:9"), ("task", "./../mine.py"), ("model_folder", "elsewhere")]
)
def test_a_place_that_a_strangers_manifest_names_is_not_gone_to(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    folder = tmp_path / "unpacked"
    unpack(bundle, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["circumstances"][name] = value
    (folder / MANIFEST).write_text(json.dumps(manifest))
    refused = command(capsys, "replay", str(folder), code=2)
    assert value in refused.err


def test_a_study_is_packed_with_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "study"
    studied("dead_groups", folder)
    for number in (1, 2):
        command(capsys, "pack", str(folder), "--out", f"{number}.zip", *SAID, code=0)
    assert Path("1.zip").read_bytes() == Path("2.zip").read_bytes()
    unpack(Path("1.zip"), tmp_path / "unpacked")
    assert {each.parent.name for each in folder.rglob(CONFIG)} == {
        each.parent.name for each in (tmp_path / "unpacked").rglob(CONFIG)
    }
    assert command(capsys, "report", "1.zip", "--out", "page.html").code == 0
    assert (tmp_path / "page.html").read_bytes() == (folder / "index.html").read_bytes()
