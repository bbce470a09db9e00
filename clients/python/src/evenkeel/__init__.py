"""The client of Evenkeel, a service that decides where pods may and should run so that they stay
evenly spread.

`Client` has the calls of the service. `Feed` keeps a snapshot of a server equal to what a program knows.
`Decider` asks many questions over one stream. `evenkeel.aio` has the same for asyncio. `change`, `delete`
and `from_kubernetes` make messages, and `Position` is where a feed is. `evenkeel.v1` has the messages."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from evenkeel import aio
from evenkeel.aio import Position
from evenkeel.channel import channel_arguments, identified
from evenkeel.objects import change, delete, from_kubernetes
from evenkeel.v1 import spread_service_pb2 as api
from evenkeel.v1 import spread_service_pb2_grpc as rpc

__all__ = ["Client", "Decider", "Feed", "Position", "aio", "change", "delete", "from_kubernetes"]

T = TypeVar("T")


class _Interceptor(grpc.UnaryUnaryClientInterceptor):
    """Gives a Place that reserves an id, under which it can be sent again."""

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details, identified(request))


if TYPE_CHECKING:

    class _Stub(rpc.SpreadServiceStub):
        def __new__(cls, *_: Any) -> Any: ...

        def __init__(self, channel: grpc.Channel) -> None: ...
else:
    _Stub = rpc.SpreadServiceStub


class Client(_Stub):
    """Calls servers. It has a method for each call of the service, such as `Filter`, which takes the request
    and, as `timeout`, how many seconds the call may take.

    Args:
        servers: A server, such as "localhost:50051", several, which are IP addresses with ports that commas
            separate, or all addresses of a name, such as "dns:///evenkeel.evenkeel:50051".
        credentials: Those of gRPC. Without them nothing is encrypted.
        token_file: A file with the token of the caller, which is read for each call and sent only over TLS.
        options: Those of a gRPC channel.

    Calls go to the servers in turn. A call that ends with UNAVAILABLE is sent again, up to three times,
    if it only reads. So are ReservePods and Place: where that reserves and has no request id it is given
    one, so that nothing is reserved twice. Other calls are not repeated. Servers without a common log have states of
    their own: feed and reserve at each by a client of its own.
    """

    def __init__(
        self,
        servers: str,
        credentials: grpc.ChannelCredentials | None = None,
        token_file: str | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        target, secured, settings = channel_arguments(servers, credentials, token_file, options)
        # What a Feed and a Decider connect with.
        self._arguments = (servers, credentials, token_file, options)
        if secured is None:
            self._channel = grpc.insecure_channel(target, options=settings)
        else:
            self._channel = grpc.secure_channel(target, secured, options=settings)
        super().__init__(grpc.intercept_channel(self._channel, _Interceptor()))

    def close(self) -> None:
        """Ends the connections. Calls under way are cancelled."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def _start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Has work done by an event loop in a thread, which all feeds and deciders of the process share."""
    with _lock:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            threading.Thread(target=_loops[0].run_forever, daemon=True).start()
    return asyncio.run_coroutine_threadsafe(work, _loops[0])


async def _connect(client: Client) -> aio.Client:
    return aio.Client(*client._arguments)


class Feed:
    """Keeps a snapshot of one server equal to what its caller knows, from the time when it is made until
    it is closed. It lists the state, replaces the snapshot by it, and then sends each change.

    Args:
        client: The client of that server. The feed has a connection of its own.
        list_state: Returns the whole state, as changes that create each object. What is given to `send`
            before it is called has to be in it. It is called in another thread, as is what hears of errors.
        options: As of `evenkeel.aio.Feed`: `snapshot`, `default_constraints`, `kubernetes_version`,
            `listed_kinds`, `heartbeat`, `silence`, `on_refused` and `on_error`. Changes that the server refuses are logged
            unless there is an `on_refused`.
    """

    def __init__(self, client: Client, list_state: Callable[[], list[api.Change]], **options: Any) -> None:
        self._client = _start(_connect(client)).result()

        async def listed() -> list[api.Change]:
            return await asyncio.to_thread(list_state)

        async def make() -> aio.Feed:
            return aio.Feed(self._client, listed, **options)

        self._feed = _start(make()).result()
        self._running = _start(self._feed.run())

    def close(self) -> None:
        """Ends the feed, and its connection."""
        self._running.cancel()
        _start(self._client.close()).result()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *changes: api.Change) -> None:
        """Has changes sent, in this order, and does not wait."""
        _loops[0].call_soon_threadsafe(self._feed.send, *changes)

    def flush(self, timeout: float | None = None) -> Position:
        """Waits until the server has all that was given to `send` before, and returns where that is.
        Raises TimeoutError after so many seconds."""
        waiting = _start(self._feed.flush())
        try:
            return waiting.result(timeout)
        finally:
            waiting.cancel()


class Decider:
    """Asks questions over one stream, which costs a fraction of a call each. Each method returns a future
    at once. A timeout is in seconds; without one a question waits.

    Args:
        client: The client of the servers to ask. The decider has connections of its own.
    """

    def __init__(self, client: Client) -> None:
        self._client = _start(_connect(client)).result()

        async def make() -> aio.Decider:
            return aio.Decider(self._client)

        self._decider = _start(make()).result()

    def close(self) -> None:
        """Ends the stream, and its connection. Futures without an answer are cancelled."""
        _start(self._decider.close()).result()
        _start(self._client.close()).result()

    def __enter__(self) -> "Decider":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def filter(self, request: api.FilterRequest, timeout: float | None = None) -> "Future[api.FilterResponse]":
        """Asks which nodes are feasible."""
        return _start(self._decider.filter(request, timeout))

    def score(self, request: api.ScoreRequest, timeout: float | None = None) -> "Future[api.ScoreResponse]":
        """Asks how good nodes are."""
        return _start(self._decider.score(request, timeout))

    def place(self, request: api.PlaceRequest, timeout: float | None = None) -> "Future[api.PlaceResponse]":
        """Asks where replicas should go. One that reserves gets a request id if it has none."""
        return _start(self._decider.place(request, timeout))


def __dir__() -> list[str]:
    return __all__
