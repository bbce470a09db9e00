"""The client for asyncio: `Client`, `Feed` and `Decider` of `evenkeel`, whose methods are awaited."""

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio
from google.rpc import status_pb2

from evenkeel.channel import channel_arguments, identified
from evenkeel.objects import batch_of, identity, refused_in
from evenkeel.v1 import spread_service_pb2 as api
from evenkeel.v1 import spread_service_pb2_grpc as rpc

__all__ = ["Client", "Decider", "Feed", "Position"]

log = logging.getLogger("evenkeel")

# How many batches are sent without an acknowledgement at most.
SENT_AHEAD = 8
# How many changes wait for an acknowledgement at most. When there are more, they are forgotten and
# the state is listed anew.
QUEUE_SIZE = 100_000
# How many unanswered questions of a stream a server takes.
UNANSWERED = 256
# How often a question is asked whose stream ends with UNAVAILABLE.
ATTEMPTS = 4
# The end of a stream.
EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]


class _Interceptor(grpc.aio.UnaryUnaryClientInterceptor):
    """Gives a Place that reserves an id, under which it can be sent again."""

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(details, identified(request))


if TYPE_CHECKING:
    _Stub = rpc.SpreadServiceAsyncStub
else:
    _Stub = rpc.SpreadServiceStub


class Client(_Stub):
    """Calls servers, as `evenkeel.Client` does. Its methods are awaited.

    Args:
        servers: A server, several, or all addresses of a name, as of `evenkeel.Client`.
        credentials: Those of gRPC. Without them nothing is encrypted.
        token_file: A file with the token of the caller, which is read for each call and sent only over TLS.
        options: Those of a gRPC channel.
    """

    def __init__(
        self,
        servers: str,
        credentials: grpc.ChannelCredentials | None = None,
        token_file: str | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        target, secured, settings = channel_arguments(servers, credentials, token_file, options)
        more: dict[str, Any] = {"options": settings, "interceptors": [_Interceptor()]}
        if secured is None:
            self._channel = grpc.aio.insecure_channel(target, **more)
        else:
            self._channel = grpc.aio.secure_channel(target, secured, **more)
        super().__init__(self._channel)

    async def close(self) -> None:
        """Ends the connections. Calls under way are cancelled."""
        await self._channel.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Position(NamedTuple):
    """A state of a snapshot: what to send as `min_revision` and `epoch` of a question, to ask of that state
    or a later one."""

    revision: int
    """Revision of the snapshot."""
    epoch: str
    """Epoch of the revision."""


class _Pause:
    """The wait before another attempt: 100 ms at first, then twice as long each time, up to half a
    minute, each shortened by a random part."""

    def __init__(self) -> None:
        self.next = 0.0

    async def wait(self) -> None:
        self.next = min(max(2 * self.next, 0.1), 30)
        await asyncio.sleep(self.next * random.uniform(0.5, 1))


class _Restart(Exception):
    """Why a feed begins another stream."""


class _Refused(_Restart):
    """Changes are left out that the server refuses: no pause is needed."""


def _words(error: Exception) -> str:
    return error.details() or "" if isinstance(error, grpc.aio.AioRpcError) else str(error)


def _log_refused(change: api.Change, error: Exception) -> None:
    kind, namespace, name = identity(change)
    log.error("the feed leaves out %s %s, which the server refuses: %s",
              kind, f"{namespace}/{name}" if namespace else name, _words(error))


def _log_error(error: Exception) -> None:
    log.warning("the feed starts over: %s", _words(error) or repr(error))


class Feed:
    """Keeps a snapshot of one server equal to what its caller knows.

    It lists the state, replaces the snapshot by it, and then sends each change. When the stream breaks
    it connects again, after a pause that grows to half a minute. If the snapshot has still the epoch of
    the last acknowledgement, the feed resumes with what was not acknowledged. Otherwise the server has
    lost the snapshot, and the feed lists and replaces again.

    Args:
        client: The client of that server.
        list_state: Returns the whole state, as changes that create each object. What is given to `send`
            before it is called has to be in it.
        snapshot: Name of the snapshot; empty means "default".
        default_constraints: Sent with each list; without them they stay as they are.
        kubernetes_version: Sent with each list; empty means that it stays as it is.
        listed_kinds: The kinds of which `list_state` returns all objects, such as "StorageClass". Where these
            are "PersistentVolumeClaim", "PersistentVolume" and "StorageClass", a claim that is missing does
            not exist, although there may be no volume and no class.
        heartbeat: For how many seconds the feed is silent while nothing changes. A third of the snapshot's
            maximum age or less is right.
        silence: For how many seconds an acknowledgement may be missing.
        on_refused: Hears of each change that the server refuses as not valid, which is left out. Without it
            the logger "evenkeel" does.
        on_error: Hears why the feed starts over. Without it the logger "evenkeel" does.
    """

    def __init__(
        self,
        client: Client,
        list_state: Callable[[], Awaitable[list[api.Change]]],
        *,
        snapshot: str = "",
        default_constraints: api.DefaultConstraints | None = None,
        kubernetes_version: str = "",
        listed_kinds: Iterable[str] = (),
        heartbeat: float = 10,
        silence: float = 30,
        on_refused: Callable[[api.Change, Exception], None] = _log_refused,
        on_error: Callable[[Exception], None] = _log_error,
    ) -> None:
        self._client = client
        self._list_state = list_state
        self._snapshot = snapshot
        self._first = api.UpdateSnapshotRequest(
            snapshot=snapshot, default_constraints=default_constraints, kubernetes_version=kubernetes_version,
            resource_versions=dict.fromkeys(listed_kinds, 0))
        self._heartbeat = heartbeat
        self._silence = silence
        self._on_refused = on_refused
        self._on_error = on_error
        # The changes that are not acknowledged, oldest first, and how many have left it.
        self._queue: list[api.Change] = []
        self._ended = 0
        # Whether the server has the list and all that has left the queue.
        self._listed = False
        self._lists = 0
        self._position = Position(0, "")
        self._moved = asyncio.Condition()
        self._wake = asyncio.Event()

    def send(self, *changes: api.Change) -> None:
        """Has changes sent, in this order. The messages must not be changed afterwards."""
        self._queue.extend(changes)
        if len(self._queue) > QUEUE_SIZE:
            self._forget()
        self._wake.set()

    async def flush(self) -> Position:
        """Waits until the server has all that was given to `send` before, and returns where that is."""
        wanted = self._ended + len(self._queue)
        async with self._moved:
            await self._moved.wait_for(lambda: self._listed and self._ended >= wanted)
        return self._position

    async def run(self) -> None:
        """Feeds until it is cancelled."""
        pause = _Pause()
        pending: list[list[api.Change] | int] = []
        while True:
            try:
                await self._session(pending, pause)
            except _Refused:
                continue
            except Exception as error:
                self._on_error(error)
            pending.clear()
            await pause.wait()

    def _forget(self) -> None:
        """Gives up the queue: the state has to be listed."""
        self._ended += len(self._queue)
        self._queue = []
        self._listed = False
        self._lists += 1

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def _resumable(self) -> bool:
        """Finds out whether the server has the snapshot still that was acknowledged."""
        if not self._listed:
            return False
        try:
            request = api.GetSnapshotRequest(snapshot=self._snapshot)
            held = (await self._client.GetSnapshot(request, timeout=self._silence)).snapshot
        except grpc.aio.AioRpcError as error:
            # A server that cannot be reached may have it.
            if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED):
                return False
            raise
        position = Position(held.revision, held.epoch)
        return bool(held.synced) and position.epoch == self._position.epoch and position >= self._position

    async def _session(self, pending: list[Any], pause: _Pause) -> None:
        """One stream: connects and feeds until something breaks. `pending` has the list, and its number,
        until the server has it."""
        resumable = not pending and await self._resumable()
        # Without an iterator of requests, steps are written one by one.
        stream_snapshot: Any = self._client.StreamSnapshot
        stream = _Stream(stream_snapshot(), self._silence)
        try:
            if not resumable:
                if not pending:
                    await stream.connected()
                    self._forget()
                    number = self._lists
                    pending += [await self._list_state(), number]
                await self._replace(stream, pending)
                pending.clear()
            pause.next = 0
            await self._follow(stream)
        finally:
            stream.close()

    async def _replace(self, stream: "_Stream", pending: list[Any]) -> None:
        changes, number = pending
        acknowledged = 0

        async def take() -> Position:
            nonlocal acknowledged
            count = stream.steps[0]
            try:
                position = await stream.acknowledgement()
            except Exception as error:
                batch = changes[acknowledged:acknowledged + count]
                kept = self._without(batch, error)
                if len(kept) == count:
                    raise
                pending[0] = changes[:acknowledged] + kept + changes[acknowledged + count:]
                raise _Refused from error
            acknowledged += count
            return position

        await stream.send(0, begin_replace=api.BeginReplace(snapshot=self._snapshot))
        start = 0
        update = self._first
        while start < len(changes) or update is self._first:
            batch = batch_of(changes, start)
            start += len(batch)
            message = api.UpdateSnapshotRequest(changes=batch)
            message.MergeFrom(update)
            update = api.UpdateSnapshotRequest(snapshot=self._snapshot)
            await stream.send(len(batch), update=message)
            while len(stream.steps) >= SENT_AHEAD:
                await take()
        await stream.send(0, commit_replace=api.CommitReplace(snapshot=self._snapshot))
        while stream.steps:
            position = await take()
        if number != self._lists:
            raise _Restart("more changes wait than are kept: the state is listed again")
        self._listed, self._position = True, position
        await self._tell()

    async def _follow(self, stream: "_Stream") -> None:
        """Sends each change, and heartbeats."""
        sent = 0
        while True:
            if not self._listed:
                raise _Restart("more changes wait than are kept: the state is listed again")
            batch = batch_of(self._queue, sent)
            if batch and len(stream.steps) < SENT_AHEAD:
                await stream.send(len(batch), update=self._update(batch))
                sent += len(batch)
                continue
            self._wake.clear()
            woken = asyncio.ensure_future(self._wake.wait())
            limit = self._silence if stream.steps else self._heartbeat
            try:
                done, _ = await asyncio.wait(
                    {woken, stream.reading}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
            if stream.reading in done:
                count = stream.steps[0] if stream.steps else 0
                await self._took(stream, count)
                sent -= count
            elif not done and stream.steps:
                raise _Restart("the server does not acknowledge what is sent")
            elif not done:
                await stream.send(0, update=self._update([]))

    async def _took(self, stream: "_Stream", count: int) -> None:
        """Takes the acknowledgement of the first changes of the queue."""
        try:
            position = await stream.acknowledgement()
        except Exception as error:
            kept = self._without(self._queue[:count], error) if self._listed else []
            if not self._listed or len(kept) == count:
                raise
            self._ended += count - len(kept)
            self._queue[:count] = kept
            await self._tell()
            raise _Refused from error
        if not self._listed:
            return
        if position.epoch != self._position.epoch:
            self._forget()
            raise _Restart("the snapshot has another epoch: the state is listed again")
        if position.revision < self._position.revision:
            self._forget()
            raise _Restart("the server is behind what it acknowledged: the state is listed again")
        del self._queue[:count]
        self._ended += count
        self._position = position
        await self._tell()

    def _without(self, batch: list[api.Change], error: Exception) -> list[api.Change]:
        """The changes of a batch that an error does not name."""
        named = refused_in(error)
        for number in named & set(range(len(batch))):
            self._on_refused(batch[number], error)
        return [change for number, change in enumerate(batch) if number not in named]

    def _update(self, changes: list[api.Change]) -> api.UpdateSnapshotRequest:
        return api.UpdateSnapshotRequest(snapshot=self._snapshot, changes=changes)


class _Stream:
    """A stream of a feed. `steps` has how many changes each step has that is not acknowledged."""

    def __init__(self, call: Any, silence: float) -> None:
        self._call = call
        self._silence = silence
        self.steps: deque[int] = deque()
        self.reading = asyncio.ensure_future(call.read())

    async def connected(self) -> None:
        """Waits for the connection; raises why there is none."""
        await asyncio.wait_for(self._call.wait_for_connection(), self._silence)

    async def send(self, changes: int, **step: Any) -> None:
        """Sends a step. That it failed is known from reading."""
        self.steps.append(changes)
        writing = asyncio.ensure_future(self._call.write(api.StreamSnapshotRequest(**step)))
        await asyncio.wait({writing}, timeout=self._silence)
        if not writing.done():
            writing.cancel()
            raise _Restart("the server does not read what is sent")
        writing.exception()

    async def acknowledgement(self) -> Position:
        """The next acknowledgement; raises why the stream ended."""
        await asyncio.wait({self.reading}, timeout=self._silence)
        if not self.reading.done():
            raise _Restart("the server does not acknowledge what is sent")
        answer = self.reading.result()
        if answer is EOF or not self.steps:
            raise _Restart("the server has ended the stream")
        self.steps.popleft()
        self.reading = asyncio.ensure_future(self._call.read())
        return Position(answer.update.revision, answer.update.epoch)

    def close(self) -> None:
        self._call.cancel()
        self.reading.cancel()


@dataclass
class _Question:
    id: int
    ask: dict[str, Any]
    deadline: float | None
    answer: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    attempts: int = 0

    def step(self) -> api.DecideRequest:
        question = api.Question(id=self.id, **self.ask)
        if self.deadline is not None:
            left = max(self.deadline - asyncio.get_running_loop().time(), 0.001)
            question.timeout.FromNanoseconds(int(left * 1e9))
        return api.DecideRequest(question=question)


class Decider:
    """Asks questions over one stream, which costs a fraction of a call each.

    Questions that are asked at once share the stream: `asyncio.gather(decider.filter(...), ...)`. One that
    is refused raises what its call would. When the stream ends with UNAVAILABLE, what was not answered is
    asked again on another one, up to three times. Timeouts are in seconds; without one a question waits.

    Args:
        client: The client of the servers to ask.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids = itertools.count(1)
        self._open: dict[int, _Question] = {}
        self._slots = asyncio.Semaphore(UNANSWERED)
        self._steps: asyncio.Queue[api.DecideRequest] = asyncio.Queue()
        self._running: asyncio.Task[None] | None = None

    async def filter(self, request: api.FilterRequest, timeout: float | None = None) -> api.FilterResponse:
        """Asks which nodes are feasible."""
        answer: api.FilterResponse = await self._ask("filter", request, timeout)
        return answer

    async def score(self, request: api.ScoreRequest, timeout: float | None = None) -> api.ScoreResponse:
        """Asks how good nodes are."""
        answer: api.ScoreResponse = await self._ask("score", request, timeout)
        return answer

    async def place(self, request: api.PlaceRequest, timeout: float | None = None) -> api.PlaceResponse:
        """Asks where replicas should go. One that reserves gets a request id if it has none."""
        answer: api.PlaceResponse = await self._ask("place", identified(request), timeout)
        return answer

    async def close(self) -> None:
        """Ends the stream. Questions without an answer are cancelled."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        for question in list(self._open.values()):
            self._settle(question.id, asyncio.CancelledError())

    async def __aenter__(self) -> "Decider":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, kind: str, request: Any, timeout: float | None) -> Any:
        await self._slots.acquire()
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        loop = asyncio.get_running_loop()
        question = _Question(next(self._ids), {kind: request}, None if timeout is None else loop.time() + timeout)
        self._open[question.id] = question
        self._steps.put_nowait(question.step())
        try:
            # The server answers in time. This is for one that does not.
            await asyncio.wait({question.answer}, timeout=None if timeout is None else timeout + 1)
            if not question.answer.done():
                raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "the server has not answered")
            return getattr(question.answer.result(), kind)
        finally:
            if not question.answer.done():
                question.attempts = ATTEMPTS
                self._steps.put_nowait(api.DecideRequest(cancel=question.id))

    def _settle(self, number: int, answer: "api.DecideResponse | BaseException") -> None:
        question = self._open.pop(number, None)
        if question is None:
            return
        self._slots.release()
        if question.answer.done():
            return
        if isinstance(answer, asyncio.CancelledError):
            question.answer.cancel()
        elif isinstance(answer, BaseException):
            question.answer.set_exception(answer)
            # Nobody waits for one that was given up.
            question.answer.exception()
        else:
            question.answer.set_result(answer)

    async def _run(self) -> None:
        pause = _Pause()
        while True:
            step = await self._steps.get()
            error = await self._converse(step, pause)
            lost = error.code() == grpc.StatusCode.UNAVAILABLE
            for question in list(self._open.values()):
                question.attempts += 1
                if not lost or question.attempts >= ATTEMPTS:
                    self._settle(question.id, error)
            # All that is open is asked again: what was to be sent is among that.
            self._steps = asyncio.Queue()
            for question in self._open.values():
                self._steps.put_nowait(question.step())
            if self._open:
                await pause.wait()

    async def _converse(self, step: api.DecideRequest, pause: _Pause) -> grpc.aio.AioRpcError:
        """Sends steps and takes answers until the stream ends, and returns why it did."""
        decide: Any = self._client.Decide
        call = decide()
        writing = asyncio.create_task(self._write(call, step))
        try:
            while (answer := await call.read()) is not EOF:
                pause.next = 0
                refused = _refusal(answer.error) if answer.HasField("error") else None
                self._settle(answer.id, refused or answer)
            return _error(grpc.StatusCode.UNAVAILABLE, "the server has ended the stream")
        except grpc.aio.AioRpcError as error:
            return error
        finally:
            writing.cancel()
            call.cancel()

    async def _write(self, call: Any, step: api.DecideRequest) -> None:
        try:
            while True:
                await call.write(step)
                step = await self._steps.get()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # Reading tells why.


def _error(code: grpc.StatusCode, message: str, trailing: Sequence[tuple[str, Any]] = ()) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), message)


def _refusal(refused: status_pb2.Status) -> grpc.aio.AioRpcError:
    """The error with which a call would have ended."""
    code = next(code for code in grpc.StatusCode if code.value[0] == refused.code)
    return _error(code, refused.message, [("grpc-status-details-bin", refused.SerializeToString())])


def __dir__() -> list[str]:
    return __all__
