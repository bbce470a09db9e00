"""How channels to servers are made."""

import uuid
from collections.abc import Sequence
from importlib import resources
from typing import Any

import grpc

from evenkeel.v1 import spread_service_pb2 as api


class _TokenFile(grpc.AuthMetadataPlugin):
    """Identifies the caller by the token in a file, which is read for each call."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, context: Any, callback: Any) -> None:
        try:
            with open(self._path, encoding="utf-8") as file:
                callback((("authorization", "Bearer " + file.read().strip()),), None)
        except OSError as error:
            callback((), error)


def channel_arguments(
    servers: str,
    credentials: grpc.ChannelCredentials | None,
    token_file: str | None,
    options: Sequence[tuple[str, Any]],
) -> tuple[str, grpc.ChannelCredentials | None, list[tuple[str, Any]]]:
    """The target, the credentials and the options of a channel."""
    config = resources.files("evenkeel").joinpath("service_config.json").read_text()
    settings: list[tuple[str, Any]] = [("grpc.service_config", config)]
    if "," in servers:
        # Several addresses are not the name of a server, and one is needed.
        settings.append(("grpc.default_authority", "evenkeel"))
        servers = "ipv4:" + servers
    if token_file is not None:
        if credentials is None:
            raise ValueError("tokens are sent only over TLS: credentials are needed")
        token = grpc.metadata_call_credentials(_TokenFile(token_file))
        credentials = grpc.composite_channel_credentials(credentials, token)
    return servers, credentials, [*settings, *options]


def identified(request: Any) -> Any:
    """A request to send: a Place that reserves is given an id, under which it can be sent again."""
    if isinstance(request, api.PlaceRequest) and request.HasField("reserve") and not request.request_id:
        copy = api.PlaceRequest()
        copy.CopyFrom(request)
        copy.request_id = str(uuid.uuid4())
        return copy
    return request
