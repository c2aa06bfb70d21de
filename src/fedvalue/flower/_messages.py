"""Messages to the nodes of a Flower federation: push all, poll until all are answered.

Flower's `send_and_receive` sleeps 3 s between polls; here replies are asked for more often. Replies are
matched by the message that they answer: Flower reports a lost node in a message from the SuperLink itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from flwr.proto.node_pb2 import NodeInfo
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from fedvalue.flower._wire import Message, RecordDict

__all__ = ["Exchange", "Failure", "Grid", "Mailbox", "Question"]

_POLL_SECONDS = (0.1, 0.5)  # from, to: a reply is seen soon, and waiting for hours asks seldom
TELL_SECONDS = 15.0  # between two words about how far a message round is
_GRACE_SECONDS = 60.0  # a message outlives the deadline by this, so that a late reply finds its question

# Flower's error codes, in words that end a sentence about the node.
_CODES = {
    1: "could not load the ClientApp",
    2: "raised an error",
    3: "lost the message",
    4: "lost its reply",
    5: "is not there (it was stopped, or its connection was lost)",
    7: "refused the app",
    8: "crashed while it trained",
}
_GONE = frozenset({3, 5})  # of these nothing was heard
# What Flower raises on bytes that are not a message; a lost connection raises other errors.
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, DecodeError)


class Grid(Protocol):
    """What we need of Flower's Grid; an object of a few lines does for tests."""

    def get_nodes(self) -> Iterable[NodeInfo]: ...
    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]: ...
    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]: ...


@dataclass(frozen=True)
class Question:
    """One message to one node."""

    node: int
    kind: str
    content: RecordDict
    group: str


@dataclass(frozen=True)
class Failure:
    """Why there is no answer; the text ends a sentence about the node."""

    reason: str
    gone: bool = False  # nothing was heard of the node itself


class Mailbox:
    """Questions on their way: some are posted, answers are collected as they come."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.waiting: dict[str, int] = {}
        self._posted = 0

    def post(self, questions: Sequence[Question], seconds: float) -> dict[int, Failure]:
        """Sends; questions are numbered in the order of posting. Returns those that could not be sent."""
        ttl = seconds + _GRACE_SECONDS
        messages = [Message(q.content, q.node, q.kind, ttl=ttl, group_id=q.group) for q in questions]
        identifiers = list(self.grid.push_messages(messages)) if messages else []
        unsent: dict[int, Failure] = {}
        for place in range(len(messages)):  # a push that is refused altogether returns nothing
            identifier = identifiers[place] if place < len(identifiers) else None
            if identifier:
                self.waiting[str(identifier)] = self._posted + place
            else:
                reason = "could not be reached: the SuperLink took no message for it"
                unsent[self._posted + place] = Failure(reason, gone=True)
        self._posted += len(messages)
        return unsent

    def collect(self) -> dict[int, RecordDict | Failure]:
        """What came in since the last time, by the number of the question."""
        if not self.waiting:
            return {}
        try:
            return self._pulled(list(self.waiting))
        except _MALFORMED:  # one of them; Flower reads all or raises
            answers: dict[int, RecordDict | Failure] = {}
        for identifier in list(self.waiting):
            try:
                answers |= self._pulled([identifier])
            except _MALFORMED:
                answers[self.waiting.pop(identifier)] = Failure("sent a reply that cannot be read")
        return answers

    def _pulled(self, identifiers: list[str]) -> dict[int, RecordDict | Failure]:
        answers: dict[int, RecordDict | Failure] = {}
        for reply in self.grid.pull_messages(identifiers):
            place = self.waiting.pop(reply.metadata.reply_to_message_id, None)
            if place is not None:
                answers[place] = _answer(reply)
        return answers


class Exchange:
    """Questions that were sent, to be answered within the given time; meanwhile, something else may be done."""

    def __init__(self, grid: Grid, questions: Sequence[Question], seconds: float) -> None:
        self.mailbox = Mailbox(grid)
        self.count = len(questions)
        self.seconds = seconds
        self._answers: dict[int, RecordDict | Failure] = dict(self.mailbox.post(questions, seconds))
        self._ends = time.monotonic() + seconds

    def answers(
        self, tell: Callable[[int, int], None] = lambda answered, asked: None
    ) -> list[RecordDict | Failure]:
        """What each question was answered with, in their order; waits for as long as given, not longer.

        `tell` is told from time to time how many have been answered, where that takes long.
        """
        pause, told = _POLL_SECONDS[0], time.monotonic()
        while self.mailbox.waiting:
            new = self.mailbox.collect()
            self._answers |= new
            left = self._ends - time.monotonic()
            if not self.mailbox.waiting or left <= 0:
                break
            if time.monotonic() >= told + TELL_SECONDS:
                told = time.monotonic()
                tell(len(self._answers), self.count)
            pause = _POLL_SECONDS[0] if new else min(pause * 1.2, _POLL_SECONDS[1])
            time.sleep(min(pause, left))
        late = Failure(f"did not answer within {self.seconds:.0f} s", gone=True)
        return [self._answers.get(place, late) for place in range(self.count)]


def _answer(reply: Message) -> RecordDict | Failure:
    if reply.has_content():
        return reply.content
    code = reply.error.code
    reason = (reply.error.reason or "").strip()
    text = _CODES.get(code, f"failed with Flower's error {code}")
    # It is another party's, and is logged.
    reason = "".join(c if c.isprintable() else " " for c in reason[:300])
    return Failure(f"{text}: {reason}" if code == 2 and reason else text, gone=code in _GONE)
