"""Answers in place of an embedded server that died, so that its clients learn it at once.

The SDK repeats a refused connection for minutes. Whoever started the server binds its port again and tells each request
in the protocol's own words that the server is gone.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Tombstone:
    """An HTTP server on the dead server's port that refuses everything."""

    def __init__(self, port: int, message: str) -> None:
        """Serve on loopback until `close`; binding may raise OSError where the port was taken meanwhile."""
        body = json.dumps({"error": message, "category": "server", "detail": message}).encode()

        class Refuse(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                # A future fails with 200 and an error; anything else is refused with a status that is not repeated.
                # Telemetry is taken, as the server takes it: the SDK would print a traceback for each that is not.
                if self.path.endswith("/telemetry"):
                    self._answer(200, b'{"status": "accepted"}')
                else:
                    self._answer(200 if self.path.endswith("/retrieve_future") else 400)

            def do_GET(self) -> None:
                self._answer(400)

            do_PUT = do_DELETE = do_GET

            def _answer(self, status: int, said: bytes = body) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Refuse)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
