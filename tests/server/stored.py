"""Parts the store's tests share: names, a fixed clock, and a finished request."""

from tinsmith.server.database.store import Store

NOW = 1_000_000.0
PROTO = "application/x-protobuf"
OWNER = "s000001:train:0"


def finished(store: Store, owner: str, seq_id: int, body: bytes = b"body") -> str:
    request_id, _ = store.open_request(owner=owner, seq_id=seq_id, kind="asample")
    store.finish(request_id, body=body, media_type=PROTO)
    return request_id
