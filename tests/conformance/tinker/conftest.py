"""The server under test, once per process; TINKER_BASE_URL, TINKER_API_KEY and TINSMITH_CONFORMANCE_MODEL name another.

Checks that need the model's weights or a server that may be ended are skipped on a server that was named.
"""

import gc
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import tinker
from hf_reference import HfReference
from sdk_cases import TIMEOUT_S
from sdk_server import FreshServer, Server, from_environment, start, write_model

HERE = Path(__file__).parent
_OF_THE_SDK = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""The SDK leaves the sockets of its first requests to the garbage collector."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            for warning in _OF_THE_SDK:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="module", autouse=True)
def collect_garbage() -> Iterator[None]:
    """Collect what the SDK left while its warnings are still ignored, not during another suite's test."""
    yield
    gc.collect()


CLOSE_S = 20.0


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return folder


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    named = from_environment()
    if named is not None:
        yield named
        return
    own = start(request.getfixturevalue("model_folder"), tmp_path_factory.mktemp("state"), seed=0)
    try:
        yield own
    finally:
        own.stop()


@pytest.fixture(scope="session")
def service(server: Server) -> Iterator[tinker.ServiceClient]:
    client = server.service()
    yield client
    # On Python 3.11 the SDK's own close may wait for ever: asyncio.wait_for loses the cancelling of its telemetry.
    with suppress(TimeoutError):
        client.close("success").result(CLOSE_S)


@pytest.fixture(scope="module")
def sampler(server: Server, service: tinker.ServiceClient) -> tinker.SamplingClient:
    return service.create_sampling_client(base_model=server.model).result(TIMEOUT_S)


@pytest.fixture(scope="session")
def rest(server: Server) -> tinker.RestClient:
    return server.rest()


@pytest.fixture(scope="session")
def context(server: Server, rest: tinker.RestClient) -> int:
    """The most tokens a sequence may have."""
    models = rest.get_server_capabilities().result(TIMEOUT_S).supported_models
    lengths = {model.model_name: model.max_context_length for model in models}
    length = lengths[server.model]
    assert length is not None
    return length


@pytest.fixture(scope="session")
def hf(server: Server, request: pytest.FixtureRequest) -> HfReference:
    """The same weights in transformers."""
    if server.process is None:
        pytest.skip("the weights of a named server are not at hand")
    return HfReference(request.getfixturevalue("model_folder"))


@pytest.fixture
def fresh_server(server: Server, request: pytest.FixtureRequest) -> Iterator[FreshServer]:
    """Start further servers of the same model: `fresh_server(state, seed)`."""
    if server.process is None:
        pytest.skip("a named server cannot be started anew")
    folder = request.getfixturevalue("model_folder")
    with ExitStack() as stack:

        def begin(state: Path, seed: int) -> Server:
            fresh = start(folder, state, seed=seed)
            stack.callback(fresh.kill)
            return fresh

        yield begin
