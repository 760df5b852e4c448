"""The rest of the SDK's REST client: searches and totals that are known here, and what is refused by name."""

from collections.abc import Callable

import pytest
import tinker
from sdk_cases import TIMEOUT_S, USER_ERRORS, lora
from sdk_server import Server
from tinker import types

pytestmark = pytest.mark.filterwarnings("ignore::tinker.ExperimentalWarning", "ignore::FutureWarning")


def search(rest: tinker.RestClient, **filters: object) -> types.SessionSearchResponse:
    request = types.SessionSearchRequest.model_validate(filters)
    future = rest.search_sessions(request)  # pyright: ignore[reportDeprecated]
    return future.result(TIMEOUT_S)


def test_sessions_are_found_by_what_they_were_given(server: Server, rest: tinker.RestClient) -> None:
    with tinker.ServiceClient(
        base_url=server.url, api_key=server.key, user_metadata={"arm": "copper", "try": "1"}
    ) as client:
        trainer = lora(client, server.model)
        trainer.save_state("kept").result(TIMEOUT_S)
        model_id = trainer.get_info().model_id
    session_id = str(model_id).partition(":")[0]
    (found,) = search(rest, user_metadata={"arm": "copper"}).sessions
    assert found.session_id == session_id
    assert found.checkpoints_count == 1
    assert found.checkpoint_storage_bytes is not None
    assert found.checkpoint_storage_bytes > 0
    assert found.user_metadata == {"arm": "copper", "try": "1"}
    assert not search(rest, user_metadata={"arm": "tin"}).sessions
    assert [one.session_id for one in search(rest, session_id=session_id).sessions] == [session_id]
    usage = tinker.AdminClient(base_url=server.url, api_key=server.key)
    (item,) = usage.get_current_checkpoint_storage_usage().result(TIMEOUT_S).data
    assert item.checkpoint_count >= 1
    assert item.size_bytes >= found.checkpoint_storage_bytes


def test_pages_of_a_search_follow_each_other(server: Server, rest: tinker.RestClient) -> None:
    for _ in range(3):
        with server.service():
            pass
    whole = [one.session_id for one in search(rest, limit=200).sessions]
    ids: list[str] = []
    page = search(rest, limit=2)
    while True:
        ids += [one.session_id for one in page.sessions]
        if page.next_cursor is None:
            break
        page = search(rest, limit=2, cursor=page.next_cursor)
    assert ids == whole


@pytest.mark.parametrize("filters", [{"project_ids": ["nobody's"]}, {"statuses": [{"type": "active"}]}], ids=str)
def test_what_a_search_cannot_know_is_refused(rest: tinker.RestClient, filters: dict[str, object]) -> None:
    with pytest.raises(USER_ERRORS):
        search(rest, **filters)


CALLS: dict[str, Callable[[tinker.RestClient, tinker.AdminClient], object]] = {
    "audit": lambda _, admin: admin.get_audit_log().result(TIMEOUT_S),
    "billing": lambda _, admin: admin.get_billing_usage("2026-07-13T00:00:00Z", "2026-07-14T00:00:00Z").result(
        TIMEOUT_S
    ),
    "trace": lambda rest, _: rest.export_session_trace("s000001").result(TIMEOUT_S),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_what_is_not_kept_here_is_refused_by_name(
    server: Server, rest: tinker.RestClient, call: Callable[[tinker.RestClient, tinker.AdminClient], object]
) -> None:
    with pytest.raises(tinker.BadRequestError, match=r"here|this server"):
        call(rest, tinker.AdminClient(base_url=server.url, api_key=server.key))
