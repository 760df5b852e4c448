"""Handshake with the server: keys, capabilities, sessions, what a model says about itself (check 1)."""

from collections.abc import Callable

import pytest
import tinker
from sdk_cases import TIMEOUT_S, USER_ERRORS, lora
from sdk_server import END, MAX_POSITIONS, Server
from tinker import types

pytestmark = pytest.mark.filterwarnings("ignore::tinker.ExperimentalWarning", "ignore::FutureWarning")


def test_capabilities_name_the_model_and_its_context(server: Server, rest: tinker.RestClient) -> None:
    models = rest.get_server_capabilities().result(TIMEOUT_S).supported_models
    served = {model.model_name: model for model in models}
    assert server.model in served
    length = served[server.model].max_context_length
    assert length > 0
    if server.process is not None:
        assert length == MAX_POSITIONS


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("foo", tinker.TinkerError),  # by the client itself
        ("tml-wrong", (tinker.AuthenticationError, tinker.PermissionDeniedError)),
        ("tml-", (tinker.AuthenticationError, tinker.PermissionDeniedError)),
    ],
)
def test_a_wrong_key_is_refused(server: Server, key: str, error: type[Exception] | tuple[type[Exception], ...]) -> None:
    with pytest.raises(error, match="tml-" if key == "foo" else None):
        tinker.RestClient(base_url=server.url, api_key=key).get_server_capabilities().result(TIMEOUT_S)


def test_a_wrong_key_opens_no_session(server: Server) -> None:
    service = tinker.ServiceClient(base_url=server.url, api_key="tml-wrong")
    with pytest.raises((tinker.AuthenticationError, tinker.PermissionDeniedError)):
        service.create_lora_training_client(server.model).result(TIMEOUT_S)


def test_a_model_says_what_it_is(server: Server, service: tinker.ServiceClient) -> None:
    info = lora(service, server.model, rank=6).get_info()
    assert info.model_data.model_name == server.model
    assert info.is_lora
    assert info.lora_rank == 6
    assert info.optimizer_config.type == "adamw"


def test_the_tokenizer_of_a_training_client_comes_from_the_server(
    server: Server, service: tinker.ServiceClient
) -> None:
    if server.process is None:
        pytest.skip("a named server may name a tokenizer that is not on this machine")
    tokenizer = lora(service, server.model).get_tokenizer()
    assert tokenizer.eos_token_id == END
    assert tokenizer.decode(tokenizer.encode("grün & ☃")) == "grün & ☃"


@pytest.mark.parametrize("trained", [False, True], ids=["base", "trained"])
def test_the_tokenizer_of_a_sampling_client_needs_no_network(
    server: Server, service: tinker.ServiceClient, trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.process is None:
        pytest.skip("a named server may name a tokenizer that is not on this machine")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if trained:
        client = lora(service, server.model).save_weights_and_get_sampling_client().result(TIMEOUT_S)
    else:
        client = service.create_sampling_client(base_model=server.model).result(TIMEOUT_S)
    tokenizer = client.get_tokenizer()
    assert tokenizer.eos_token_id == END
    assert tokenizer.decode(tokenizer.encode("grün & ☃")) == "grün & ☃"


def test_a_session_lists_its_runs_and_samplers(server: Server, rest: tinker.RestClient) -> None:
    with server.service() as service:
        run = lora(service, server.model).model_id
        service.create_sampling_client(base_model=server.model).result(TIMEOUT_S)
        session = service.holder.get_session_id()
        listed = rest.get_session(session).result(TIMEOUT_S)
        assert run == f"{session}:train:0"
        assert listed.training_run_ids == [run]
        assert len(listed.sampler_ids) == 1
        sampler = rest.get_sampler(listed.sampler_ids[0]).result(TIMEOUT_S)
        assert sampler.base_model == server.model
        assert session in rest.list_sessions().result(TIMEOUT_S).sessions


def test_a_finished_session_does_not_end_another(server: Server) -> None:
    with server.service() as first, server.service() as second:
        lora(first, server.model)
        client = lora(second, server.model)
        first.close("success").result(TIMEOUT_S)
        assert client.save_state("after").result(TIMEOUT_S).path.endswith("/weights/after")


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
