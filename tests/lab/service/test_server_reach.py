"""A server that was named is asked whether it takes the key; one that does not is the user's mistake."""

from collections.abc import Iterator

import pytest
from answering import Quiet, answering

from tinsmith.lab.experiment.materials import KEY, require_server
from tinsmith.types.errors import ConfigError

RIGHT = "tml-right"


class _Guarded(Quiet):
    """Answers that it is well to anybody, and anything else to who has the key."""

    def do_GET(self) -> None:
        open_to_all = self.path == "/api/v1/healthz"
        self.send_response(200 if open_to_all or self.headers["X-API-Key"] == RIGHT else 401)
        self.end_headers()


@pytest.fixture
def address() -> Iterator[str]:
    with answering(_Guarded) as url:
        yield url


def test_the_right_key_is_taken(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, RIGHT)
    require_server(address)
    require_server(f"{address}/")


@pytest.mark.parametrize("key", ["tml-wrong", "wrong"])
def test_a_wrong_key_is_a_mistake_and_is_not_repeated(address: str, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(KEY, key)
    with pytest.raises(ConfigError) as caught:
        require_server(address)
    assert caught.value.field == KEY
    assert "tml-wrong" not in str(caught.value)


def test_a_key_that_a_command_hands_out_is_left_to_the_client(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setenv("TINKER_CREDENTIAL_CMD", "true")
    require_server(address)
