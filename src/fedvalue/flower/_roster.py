"""The roster: which node of a Flower federation is which client, also after it came back under another id."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from fedvalue._text import listed
from fedvalue.errors import FedvalueError, InputError
from fedvalue.flower._messages import Exchange, Failure, Grid, Mailbox, Question
from fedvalue.flower._registered import Directory, RegisteredClient
from fedvalue.flower._reports import ClientReport, Kind, in_order
from fedvalue.flower._tally import Tally
from fedvalue.flower._wire import CONFIG, PROTOCOL, QUERY, ConfigRecord, RecordDict, WireError, settings_of
from fedvalue.scenarios import Scenario

__all__ = ["Roster"]

_EXTRA_SECONDS = 5.0  # for nodes beyond the expected number to answer: dead ones stay listed for a while
_AGAIN_SECONDS = 1.0  # before a node that was not there is asked again
_LOOK_SECONDS = 0.2  # between two looks at who is connected and who has answered


class Roster:
    """The clients of a federation and the nodes that stand for them; messages to them are counted here.

    `incidents` say who was left out when, and who came back; `log` is told as it happens. `absent` says of those who
    were not there when it began why, by name: they are no clients of the game.
    """

    def __init__(
        self,
        directory: Directory,
        nodes: Sequence[int],
        reports: Sequence[ClientReport],
        kind: Kind,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.directory = directory
        self.grid = directory.grid
        self.nodes = list(nodes)
        self.reports = list(reports)
        self.kind = kind
        self.log = log
        self.queries = 0  # message rounds spent on asking who is who
        self.rounds = 0  # and those spent on training and evaluating
        self.messages = 0  # of all kinds; each has a node start an app
        self.incidents: list[str] = []
        self.tally = Tally()
        self.tally.counts.update(range(len(reports)))
        self.absent: dict[str, str] = {}

    @classmethod
    def gather(
        cls,
        grid: Grid,
        clients: int,
        seconds: float,
        kind: Kind,
        log: Callable[[str], None] = lambda text: None,
        registered: Sequence[RegisteredClient] = (),
        quorum: int | None = None,
    ) -> Roster:
        """Waits until the given number of nodes have said what data they have; as long as given, not longer.

        If at least `quorum` of them have (default: all), the others are absent. `kind` tells them how a scenario will store their numbers: fingerprints depend on it. With `registered` clients
        nodes are known by their keys.
        """
        if registered and len(registered) != clients:
            raise InputError(
                f"{clients} clients were said to take part, and the roster has {len(registered)}: "
                f"{listed([client.name for client in registered], 12)}. Set `clients` to the number in the roster."
            )
        roster = cls(directory := Directory(grid, registered), [], [], kind, log)
        least = clients if quorum is None else quorum
        directory.need(least)
        expected = clients - len(directory.without_key)
        reports: dict[int, ClientReport] = {}
        refused: dict[int, str] = {}
        complete = math.inf  # when the last of the expected clients answered

        def wanted() -> bool:
            others = set(directory.nodes()) - reports.keys() - refused.keys()
            return len(reports) < expected or (bool(others) and time.monotonic() < complete + _EXTRA_SECONDS)

        for node, answer in roster._answers(wanted, (), seconds):
            if isinstance(answer, ClientReport):
                reports[node] = directory.bound(node, answer)
                refused.pop(node, None)
                complete = time.monotonic() if len(reports) == expected else complete
            else:
                refused[node] = answer.reason
        for node in directory.strangers:
            roster.note(
                f"{directory.called(node)} is connected with a key that is not in the roster; it was not asked"
            )
        if len(reports) < least:
            raise FedvalueError(_too_few(clients, least, reports, refused, directory, seconds))
        if len(reports) > clients:
            raise InputError(
                f"Expected {clients} clients; {len(reports)} nodes answered. Say how many take part, or stop the "
                "others."
            )
        roster.nodes = in_order(reports, clients)
        roster.reports = [reports[node] for node in roster.nodes]
        roster.tally.counts.update(range(len(reports)))
        if len(reports) < clients:
            places = [report.position if report.position >= 0 else None for report in roster.reports]
            roster.begin_without(places, clients, seconds, refused)
        return roster

    def begin_without(
        self, places: Sequence[int | None], clients: int, seconds: float, refused: Mapping[int, str]
    ) -> None:
        """Notes who is absent from the start, and why, as far as that is known; the others are at these places."""
        absent = self.directory.absent(places, clients, f"did not answer within {seconds:.0f} s")
        for node, reason in refused.items():
            called = self.directory.called(node)
            if called in absent:
                absent[called] = reason
            else:
                self.note(f"{called} {reason}; it takes no part")
        self._note_absent(absent)

    def leave_out(self, lost: Mapping[int, str]) -> None:
        """These clients are absent, for reasons that are given, and the others take their numbers."""
        self._note_absent({self.called(client): reason for client, reason in lost.items()})
        self.nodes = [node for client, node in enumerate(self.nodes) if client not in lost]
        self.reports = [report for client, report in enumerate(self.reports) if client not in lost]
        self.tally.leave_out(lost)

    def _note_absent(self, absent: Mapping[str, str]) -> None:
        self.absent |= absent
        for name, reason in absent.items():
            self.note(f"{name} {reason}; the others are valued without it")

    def post(
        self, kind: str, clients: Sequence[int], contents: Sequence[RecordDict], group: str, seconds: float
    ) -> Exchange:
        """A message to each of these clients, to be answered within the given time; nothing is waited for."""
        self.messages += len(contents)
        pairs = zip(clients, contents, strict=True)
        questions = [Question(self.nodes[client], kind, content, group) for client, content in pairs]
        return Exchange(self.grid, questions, seconds)

    def called(self, client: int) -> str:
        """The client's name, or its number where it has none."""
        return self.reports[client].called(client)

    @property
    def signing_keys(self) -> tuple[str, ...]:
        """With which keys the clients sign their replies; "" where none is registered."""
        places = [report.position for report in self.reports]
        return tuple(self.directory.signing_key(place) for place in places)

    def note(self, incident: str) -> None:
        """Something happened that belongs to the result."""
        self.incidents.append(incident)
        self.log(incident)

    def _answers(
        self, wanted: Callable[[], bool], known: Collection[int], seconds: float
    ) -> Iterator[tuple[int, ClientReport | Failure]]:
        """Asks every node that is connected or comes, but not the known ones, as long as answers are wanted.

        One that was gone when its question came is asked again: with authentication it returns under its id.
        """
        self.queries += 1
        mailbox, asked = Mailbox(self.grid), list[int]()
        again: dict[int, float] = {}  # node → when it may be asked again; infinite while it need not
        content = self._query()
        ends = time.monotonic() + seconds
        while wanted() and time.monotonic() < ends:
            now = time.monotonic()
            new = [
                node for node in self.directory.nodes() if node not in known and again.get(node, 0.0) <= now
            ]
            asked += new
            again |= dict.fromkeys(new, math.inf)
            questions = [Question(node, QUERY, content, "query") for node in new]
            self.messages += len(questions)
            answers: dict[int, RecordDict | Failure] = dict(mailbox.post(questions, seconds))
            for place, answer in (answers | mailbox.collect()).items():
                if isinstance(answer, Failure) and answer.gone:
                    again[asked[place]] = time.monotonic() + _AGAIN_SECONDS
                yield asked[place], _report(answer)
            if wanted():
                time.sleep(min(_LOOK_SECONDS, max(0.0, ends - time.monotonic())))

    def _query(self) -> RecordDict:
        """The question what data a node has."""
        task, classes, vocabulary = self.kind
        kind = ConfigRecord(
            {"protocol": PROTOCOL, "task": task, "classes": classes, "vocabulary": vocabulary}
        )
        return RecordDict({CONFIG: kind})

    def ask_again(self, seconds: float) -> None:
        """Asks all clients what data they have, and waits for their answers; to see how long that takes."""
        clients = range(len(self.nodes))
        self.queries += 1
        self.post(QUERY, clients, [self._query() for _ in clients], "query", seconds).answers()

    def check(self, scenario: Scenario) -> None:
        """Refuses a scenario that is not the one the nodes hold."""
        theirs = [(report.size, report.fingerprint) for report in self.reports]
        ours = [(len(data), data.fingerprint) for data in scenario.clients]
        if theirs != ours:
            wrong = [i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b]
            raise InputError(
                f"The scenario has {len(ours)} clients and the federation {len(theirs)}; the data of clients "
                f"{wrong} differs (in size or fingerprint). Both must hold the same rows in the same order."
            )

    def find_again(self, lost: Collection[int], seconds: float) -> set[int]:
        """The lost clients that answer again with the same data as before; waits for all, as long as given."""
        missing = set(lost)
        busy = {node for client, node in enumerate(self.nodes) if client not in missing}
        for node, answer in self._answers(lambda: bool(missing), busy, seconds):
            client = self._who(node, answer, missing)
            if client is not None:
                self.nodes[client] = node
                self.tally.counts[client] += 1
                missing.discard(client)
                self.note(f"{self.called(client)} answers again")
        return set(lost) - missing

    def _who(self, node: int, answer: ClientReport | Failure, missing: Collection[int]) -> int | None:
        """Which of the missing clients this is: its key, and everything that it says, must be as before."""
        if isinstance(answer, Failure):
            return None
        try:
            report = self.directory.bound(node, answer)
        except InputError as error:
            self.note(str(error))
            return None
        return next((client for client in missing if report == self.reports[client]), None)


def _report(answer: RecordDict | Failure) -> ClientReport | Failure:
    if isinstance(answer, Failure):
        return answer
    try:
        return ClientReport.from_record(settings_of(answer))
    except WireError as error:
        return Failure(str(error))


def _too_few(
    clients: int,
    least: int,
    reports: Collection[int],
    refused: dict[int, str],
    directory: Directory,
    seconds: float,
) -> str:
    text = f"Expected {clients - directory.left} clients; {len(reports)} answered within {seconds:.0f} s."
    if least < clients:
        text = f"{text[:-1]}, and it takes {least} to begin."
    for node, reason in list(refused.items())[:4]:
        text += f" {directory.called(node)} {reason}."
    if silent := directory.silent({directory.place(node) for node in (*reports, *refused)}):
        text += f" Nothing was heard of {listed(silent, 12)}."
    return text + " Start the missing SuperNodes (see docs/flower.md), or change `clients`, their number."
