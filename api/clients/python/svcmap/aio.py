"""The client for asyncio.

    async with svcmap.aio.Agent("unix:///run/svcmap/svcmap.sock", name="example") as agent:
        agent.set(objects)
        await agent.wait()

set(), apply() and remove() return after the objects are serialized; sending does not block the event
loop. For very large lists, use `await asyncio.to_thread(agent.set, objects)`.
"""
import asyncio
from typing import Iterable, Optional

from svcmap import _agent
from svcmap._agent import Closed, Status, Stopped, StreamError
from svcmap._objects import Object

__all__ = ["Agent", "Closed", "Status", "Stopped", "StreamError"]


class Agent:
    """The connection to one agent, with the parameters of svcmap.Agent. Must be created in a running
    event loop, which also runs on_result and on_error."""

    def __init__(self, target: str, *, on_result=None, on_error=None, **parameters):
        self._loop = asyncio.get_running_loop()
        self._agent = _agent.Agent(target, on_result=self._in_loop(on_result),
                                   on_error=self._in_loop(on_error), **parameters)

    def _in_loop(self, callback):
        return callback and (lambda value: self._call_soon(callback, value))

    def _call_soon(self, callback, *arguments):
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # The loop is closed, so nothing waits for the call.

    async def __aenter__(self) -> "Agent":
        return self

    async def __aexit__(self, *_) -> None:
        await self.close()

    def set(self, objects: Iterable[Object], *, accept_removals: bool = False) -> None:
        """See svcmap.Agent.set."""
        self._agent.set(objects, accept_removals=accept_removals)

    def apply(self, *objects: Object) -> None:
        """See svcmap.Agent.apply."""
        self._agent.apply(*objects)

    def remove(self, *objects: Object) -> None:
        """See svcmap.Agent.remove."""
        self._agent.remove(*objects)

    async def wait(self) -> None:
        """See svcmap.Agent.wait. For a timeout, use asyncio.wait_for."""
        done = self._loop.create_future()
        waiter = self._agent._when_acknowledged(
            lambda: self._call_soon(lambda: done.done() or done.set_result(None)))
        try:
            await done
        finally:
            self._agent._forget_waiter(waiter)
        self._agent._raise_if_unacknowledged(waiter)

    @property
    def status(self) -> Status:
        """The current state."""
        return self._agent.status

    @property
    def error(self) -> Optional[Stopped]:
        """The error that stopped the Agent, or None."""
        return self._agent.error

    async def close(self, timeout: float = 10.0) -> None:
        """See svcmap.Agent.close."""
        await asyncio.to_thread(self._agent.close, timeout)
