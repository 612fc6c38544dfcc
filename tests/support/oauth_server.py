"""An MCP server over HTTP that wants a login, and the authorization server of it, both on one loopback address.

It keeps the rules that a client may break: metadata with its own issuer, registered redirects, PKCE with S256, the
resource, one use of a code, and tokens that expire.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.mcp_server import Handler, McpServer


class OAuthServer:
    """Serves inside `with`. `asked` are the paths that were asked for; tokens hold for `seconds`.

    `refuses` is an error that the login page answers with.
    """

    def __init__(self, *, seconds: float = 3_600, refuses: str = "") -> None:
        self.seconds, self.refuses = seconds, refuses
        self.asked: list[str] = []
        self.clients: dict[str, list[str]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, float] = {}
        self.refreshes: set[str] = set()
        owner = self

        class Guarded(Handler, BaseHTTPRequestHandler):
            server_object = McpServer(Namespace(tools=0, hostile=False, log=None, until=None, stateless=False))

            def do_GET(self) -> None:
                owner.get(self)

            def do_POST(self) -> None:
                owner.post(self, super().do_POST)

        self._listening = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
        self._listening.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._listening.server_address[1]}"
        self.url = f"{self.base}/mcp"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listening.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listening.shutdown()
        self._listening.server_close()

    def get(self, request: Handler) -> None:
        url = urlsplit(request.path)
        self.asked.append(url.path)
        match url.path:
            case "/.well-known/oauth-protected-resource/mcp":
                request.reply(200, {"resource": self.url, "authorization_servers": [self.base]})
            case "/.well-known/oauth-authorization-server":
                ends = ("authorization", "token", "registration")
                places = {f"{name}_endpoint": f"{self.base}/{name}" for name in ends}
                more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
                request.reply(200, {"issuer": self.base, **places, **more})
            case "/authorization":
                self._authorize(request, {name: values[0] for name, values in parse_qs(url.query).items()})
            case _:
                request.reply(404, {})

    def _authorize(self, request: Handler, given: dict[str, str]) -> None:
        right = given["redirect_uri"] in self.clients[given["client_id"]] and given["resource"] == self.url
        assert right and given["code_challenge_method"] == "S256", given
        code = secrets.token_urlsafe()
        self.codes[code] = given
        answer = {"error": self.refuses} if self.refuses else {"code": code, "iss": self.base}
        place = f"{given['redirect_uri']}?{urlencode({**answer, 'state': given['state']})}"
        request.reply(302, {}, {"location": place})

    def post(self, request: Handler, serve: Any) -> None:
        path = urlsplit(request.path).path
        self.asked.append(path)
        if path == "/mcp":
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if self.tokens.get(token, 0) > time.time():  # clock: a token expires
                del request.headers["authorization"]
                return serve()
            request.rfile.read(int(request.headers["content-length"]))
            place = f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return request.reply(401, {}, {"www-authenticate": f'Bearer resource_metadata="{place}"'})
        body = request.rfile.read(int(request.headers["content-length"]))
        if path == "/registration":
            client = json.loads(body)
            name = secrets.token_urlsafe(6)
            self.clients[name] = client["redirect_uris"]
            return request.reply(201, {**client, "client_id": name})
        return self._token(request, {name: values[0] for name, values in parse_qs(body.decode()).items()})

    def _token(self, request: Handler, given: dict[str, str]) -> None:
        if given["grant_type"] == "refresh_token":
            right = given["refresh_token"] in self.refreshes
            self.refreshes.discard(given["refresh_token"])
        else:
            asked = self.codes.pop(given["code"], {})
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            right = challenge == asked.get("code_challenge") and given["redirect_uri"] == asked["redirect_uri"]
        if not right:
            return request.reply(400, {"error": "invalid_grant"})
        token, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        self.tokens[token] = time.time() + self.seconds  # clock: a token expires
        self.refreshes.add(refresh)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.seconds)}
        return request.reply(200, {**answer, "refresh_token": refresh})
