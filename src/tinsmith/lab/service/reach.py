"""True if a server that was named answers, and takes this user's key: asked before anything is built or written."""

from __future__ import annotations

import os
from typing import Final

from tinsmith.types.errors import ConfigError, LostError

KEY: Final = "TINKER_API_KEY"
_COMMAND: Final = "TINKER_CREDENTIAL_CMD"
_KEY_BEGINS: Final = "tml-"  # The SDK takes no other.
_ANSWER_SECONDS: Final = 10.0
_REFUSED: Final = (401, 403)


def require_server(base_url: str) -> None:
    """Check that a server answers at an address, and that it takes the key which is set.

    A key that a command hands out (TINKER_CREDENTIAL_CMD) is the SDK's to ask for, and is not tried here.
    """
    key = os.environ.get(KEY)
    if not key and not os.environ.get(_COMMAND):
        what = "base_url is set, but TINKER_API_KEY is not"
        raise ConfigError(what, field=KEY, fix="export TINKER_API_KEY=tml-..., the server's key")
    if not base_url.startswith(("http://", "https://")):
        what = "this is not the address of a server"
        raise ConfigError(what, field="base_url", value=base_url, allowed="http://HOST:PORT, or https://...")
    import httpx  # seldom needed, and a tenth of a second to load

    try:
        # Without TLS there is nothing to verify, and to load the certificates takes longer than to ask.
        verify = base_url.startswith("https:")
        with httpx.Client(base_url=base_url.rstrip("/"), timeout=_ANSWER_SECONDS, verify=verify) as client:
            with client.stream("GET", "/api/v1/healthz"):
                pass  # that it answers is all that counts, however much it would say
            if not key:
                return
            with client.stream("GET", "/api/v1/get_server_capabilities", headers={"X-API-Key": key}) as response:
                status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = f"no server answers ({type(error).__name__})"
        raise LostError(
            what, field="base_url", value=base_url, fix="start the server, or give another address"
        ) from None
    if status in _REFUSED or not key.startswith(_KEY_BEGINS):
        raise wrong_key(base_url)


def wrong_key(base_url: str) -> ConfigError:
    """Return what is said where a server refuses the key; the key itself is not repeated."""
    what, allowed = f"the server at {base_url} refuses this key", "the key that the server was started with, tml-..."
    return ConfigError(what, field=KEY, allowed=allowed, fix="export TINKER_API_KEY=..., then the same command")
