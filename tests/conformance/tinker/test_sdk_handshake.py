"""How a client meets the server: keys, capabilities, sessions, what a model says about itself (check 1)."""

import pytest
import tinker
from sdk_cases import TIMEOUT_S, lora
from sdk_server import END, MAX_POSITIONS, Server


def test_capabilities_name_the_model_and_its_context(server: Server, rest: tinker.RestClient) -> None:
    models = rest.get_server_capabilities().result(TIMEOUT_S).supported_models
    served = {model.model_name: model for model in models}
    assert server.model in served
    length = served[server.model].max_context_length
    assert length is not None
    assert length > 0
    if server.process is not None:
        assert length == MAX_POSITIONS


def test_a_key_of_another_form_is_refused_by_the_client_itself(server: Server) -> None:
    with pytest.raises(tinker.TinkerError, match="tml-"):
        tinker.RestClient(base_url=server.url, api_key="foo").get_server_capabilities()


@pytest.mark.parametrize("key", ["tml-wrong", "tml-"])
def test_a_wrong_key_is_refused(server: Server, key: str) -> None:
    with pytest.raises((tinker.AuthenticationError, tinker.PermissionDeniedError)):
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
