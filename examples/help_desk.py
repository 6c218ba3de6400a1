"""Answers at an IT help desk, with attention and with a fixed context, from dialogues made by rule.

    python examples/help_desk.py

generates about 10,000 dialogues. These steps take about ten minutes on two idle cores:

1. In two turns, a caller names a system, an error code, a ticket number and what was tried. The
   desk asks for what is missing, and then answers with all of these values and the next step. The
   turns also contain version, room and extension numbers, which the answer must not repeat.
2. Two networks learn the answers of the desk: a Transformer, which attends to the turns, and a
   recurrent network that generates its answer from the state after the last turn (a fixed context).
   `--recurrent` adds the recurrent network with attention, which takes several times as long.
3. Both are tested on systems, codes and tickets that do not occur in the training data, in turns
   with wordings of the training data and with others. Are the values copied into the answer?
4. The script prints a chat, draws where the answer looked for the ticket number, and prints the
   command that continues the chat.

All files are written to `--run-dir`. After an interruption, the same command resumes the run.
"""

import argparse
import json
import random
import re
import shlex
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.metrics import distinct
from keras_attn.records import Turn, exchanges
from keras_attn.tasks import Talker

SYLLABLES = (
    "Ba Be Bor Cal Da Del Do Fen Fi Gar Go Hol Ka Kel Lin Lo Mar Mi Nor Nu Pel Pi Ros Ru Sen Su "
    "Tal Ti Tor Va Ver Vik Vo Wen Zan Zu"
).split()
PROGRAMS = "editor browser calendar viewer planner scanner".split()
# The step that was tried, and the one that comes next.
STEPS = [
    ("restarted it", "clear its cache"), ("cleared its cache", "renew your password"),
    ("renewed my password", "check the cable"), ("checked the cable", "log out and in again"),
    ("logged out and in again", "install it anew"), ("installed it anew", "use the repair tool"),
    ("used the repair tool", "send us the log file"), ("closed all windows", "restart it"),
    ("freed some memory", "close all windows"), ("tried another computer", "free some memory"),
]  # fmt: skip
# How callers begin, and wordings of theirs. The last four of each are for the test alone.
HELLOS = [
    "", "Hello, ", "Hi, ", "Good morning! ", "Hello there. ", "Excuse me, ", "Please help. ",
    "I need help: ", "It is urgent! ", "Me again. ", "Good day. ", "Dear colleagues, ",
    "A question: ", "Sorry to call. ",
]  # fmt: skip
FIRST = {
    "system code": [
        "{system} shows {code}.", "Since this morning {system} stops with error {code}.",
        "I get {code} when I open {system}.", "{code} appears whenever {system} starts.",
        "Our {system} is down, the screen says {code}.",
        "The {program} runs, but {system} ends with {code}.",
        "{system} reports {code} after the update of {program}.",
        "In room {room} {system} fails with {code}.",
        "Please help, it is {code} again, in {system}.",
        "{system} crashed. Error {code}. My extension is {room}.",
        "I use {program}, and {system} answers with {code}.",
        "What does {code} of {system} mean?",
        "Somebody in room {room} sees {code} in {system}.",
        "{system} keeps telling me {code}, what now?", "The message {code} of {system} stays.",
        "Could you look at {system}? It prints {code}.",
    ],
    "system ticket": [
        "It is about ticket {ticket}: {system} is down.",
        "{system} still fails, see {ticket}.",
        "My ticket {ticket} about {system} is open.",
        "Any news of {system}? The ticket is {ticket}.",
        "I wrote {ticket} because {system} does not start.", "Ticket {ticket}. {system} is broken.",
        "{system} hangs in room {room}, {ticket}.",
        "{ticket} is about {system}, right?",
        "Since the update of {program} {system} is slow, ticket {ticket}.",
        "{ticket} again, {system} does not work.", "You have {ticket} of mine, for {system}.",
        "Please look at {ticket}. I cannot open {system}. My extension is {room}.",
        "I call because of {ticket}, {system} is gone.",
        "Is somebody at {system}? I have the number {ticket}.",
        "{system} refuses to start, {ticket} has it all.",
        "Could you open {ticket}? It is {system}.",
    ],
    "code ticket": [
        "I see {code}, my ticket is {ticket}.", "Ticket {ticket} says {code}.",
        "{code} again. It is in {ticket}.", "For {ticket}: the screen shows {code}.",
        "My number is {ticket} and the error is {code}.",
        "In room {room} it is {code}, see {ticket}.",
        "{ticket} here, still {code}.", "Error {code} came back, ticket {ticket}.",
        "I wrote {ticket} about {code}.",
        "It stops with {code}. Ticket {ticket}, extension {room}.",
        "Since the update of {program} I get {code}, {ticket}.",
        "What about {ticket}? It was {code}.",
        "The error {code} of {ticket} is not gone.",
        "Is {code} known? I have the number {ticket}.", "{ticket} has it all: {code}.",
        "Could you open {ticket}? It prints {code}.",
    ],
}  # fmt: skip
SECOND = {
    "ticket": [
        "It is {ticket}. I have {tried}.", "{ticket}, and I {tried}.",
        "I {tried}. The ticket is {ticket}.",
        "My ticket: {ticket}. We {tried}.", "Number {ticket}. I already {tried}.",
        "That is {ticket}; I {tried}.", "I have {tried} and got {ticket}.",
        "{ticket}. I {tried} in room {room}.",
        "You gave me {ticket}, then I {tried}.", "The mail says {ticket}, and I {tried}.",
        "Let me see, {ticket}. Yesterday I {tried}.", "I {tried} before I wrote {ticket}.",
    ],
    "code": [
        "It is {code}. I have {tried}.", "{code}, and I {tried}.",
        "I {tried}. The error is {code}.",
        "The screen says {code}. We {tried}.", "Error {code}. I already {tried}.",
        "That is {code}; I {tried}.", "I have {tried} and got {code}.",
        "{code}. I {tried} in room {room}.",
        "It showed {code}, then I {tried}.", "The mail says {code}, and I {tried}.",
        "Let me see, {code}. Yesterday I {tried}.", "I {tried} before I saw {code}.",
    ],
    "system": [
        "It is {system}. I have {tried}.", "{system}, and I {tried}.",
        "I {tried}. It is in {system}.",
        "We use {system}. We {tried}.", "In {system}. I already {tried}.",
        "That is {system}; I {tried}.",
        "I have {tried} in {system}.", "{system}. I {tried} in room {room}.",
        "I opened {system}, then I {tried}.", "The mail says {system}, and I {tried}.",
        "Let me see, {system}. Yesterday I {tried}.", "I {tried} before I opened {system}.",
    ],
}  # fmt: skip
ASKS = {
    "ticket": ["I am sorry. What is your ticket number?", "I see. Is there a ticket?"],
    "code": ["I am sorry. Which error does it show?", "I see. What is the error code?"],
    "system": ["I am sorry. Which system is it?", "I see. Where does that happen?"],
}
ANSWERS = [
    "Thank you. Ticket {ticket}, {system}, error {code}: please {next}.",
    "I noted {code} of {system} in ticket {ticket}. Now please {next}.",
    "For {system} with {code} you should {next}. Your ticket {ticket} stays open.",
]
CHAT = ["Hello, {system} shows {code}.", "My ticket: {ticket}. We checked the cable."]


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("help-desk"), help="folder (help-desk)")
    add("--dialogues", type=int, default=10_000, help="dialogues to learn from (10000)")
    add("--test", type=int, default=200, help="dialogues of each test (200)")
    add("--epochs", type=int, default=5, help="epochs of each network (5)")
    add("--recurrent", action="store_true", help="train a recurrent network with attention too")
    add("--seed", type=int, default=0, help="seed of the dialogues and the networks (0)")
    add("--quick", action="store_true", help="60 dialogues, an epoch: only to see that it runs")
    args = parser.parse_args(arguments)
    if args.quick:
        args.dialogues, args.test, args.epochs = 60, 4, 1
    return args


def make_values(draw: random.Random) -> dict[str, str]:
    """Draws the values of one dialogue."""
    tried, following = draw.choice(STEPS)
    return {
        "system": "".join(draw.choices(SYLLABLES, k=draw.choice((2, 3)))),
        "code": f"{draw.choice('EFHKX')}-{draw.randrange(1000, 10_000)}",
        "ticket": f"INC{draw.randrange(10_000, 100_000)}",
        "room": str(draw.randrange(100, 10_000)),
        "program": f"{draw.choice(PROGRAMS)} {draw.randrange(1, 30)}.{draw.randrange(10)}",
        "tried": tried,
        "next": following,
    }


def make_dialogues(
    count: int, seed: int, new_wording: bool = False, known: set[str] | None = None
) -> list[tuple[dict[str, str], list[Turn]]]:
    """Makes dialogues with their values; none of the values in `known` stands in them."""
    draw = random.Random(seed)
    dialogues = []
    while len(dialogues) < count:
        values = make_values(draw)
        if known and known & {values[slot] for slot in ("system", "code", "ticket")}:
            continue
        kind = draw.choice(list(FIRST))
        missing = next(slot for slot in SECOND if slot not in kind.split())
        part = slice(-4, None) if new_wording else slice(-4)
        texts = [
            draw.choice(HELLOS[part]) + draw.choice(FIRST[kind][part]),
            draw.choice(ASKS[missing]), draw.choice(SECOND[missing][part]), draw.choice(ANSWERS),
        ]  # fmt: skip
        turns = [
            Turn(t.format(**values), "caller desk".split()[i % 2]) for i, t in enumerate(texts)
        ]
        dialogues.append((values, turns))
    return dialogues


def networks(recurrent: bool) -> dict[str, dict]:
    """The settings of each network and of its training."""
    transformer = {
        "model": "transformer", "dim": 64, "num_layers": 2, "num_heads": 4,
        "intermediate_dim": 128, "dropout": 0.0, "positions": "rotary",
    }  # fmt: skip
    rnn = {"model": "rnn", "dim": 64, "units": 128}
    results = {
        "attention": {"model": transformer, "learning_rate": 2e-3, "tokens_per_batch": 2048},
        "fixed context": {
            "model": {**rnn, "attention": "none"}, "learning_rate": 4e-3, "tokens_per_batch": 4096
        },
    }  # fmt: skip
    if recurrent:
        results["recurrent attention"] = {**results["fixed context"], "model": rnn}
    return results


def slots_right(
    chatbot: Talker, tests: list[tuple[dict[str, str], list[Turn]]]
) -> dict[str, float]:
    """The share of values of each kind that are right in the answers of the desk."""
    right: dict[str, list[bool]] = {"ticket": [], "system": [], "code": []}
    given = [(v, x) for v, turns in tests for x in exchanges([turns], "desk")]
    answers = chatbot.answer([x.turns for _, x in given], beams=1)
    for (values, exchange), answer in zip(given, answers, strict=True):
        words = set(re.findall(r"[\w-]+", answer))
        for slot, hits in right.items():
            if values[slot] in exchange.answer:  # the right answer has it
                hits.append(values[slot] in words)
    every = [hit for hits in right.values() for hit in hits]
    shares = {slot: sum(hits) / max(len(hits), 1) for slot, hits in right.items()}
    return {**shares, "all": sum(every) / len(every), "distinct-2": distinct(answers, 2)}


def look(chatbot: Talker, values: dict[str, str], turns: tuple[str, ...], path: Path) -> float:
    """Draws where an answer looked, and returns how much its ticket's digits saw the digits."""
    import matplotlib

    matplotlib.use("Agg")
    answer = ANSWERS[0].format(**values)
    alignment = chatbot.align(turns, answer)
    alignment.plot(path, "Where the answer looked for the ticket number")
    number = values["ticket"].removeprefix("INC")
    places = [_place(side, number) for side in (alignment.target_tokens, alignment.source_tokens)]
    rows, columns = (slice(start, start + len(number)) for start in places)
    return float(alignment.weights[rows, columns].sum(axis=1).mean())


def _place(tokens: list[str], digits: str) -> int:
    """Where some digits stand among tokens, each of which is a digit."""
    return next(i for i in range(len(tokens)) if tokens[i : i + len(digits)] == [*digits])


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    train = make_dialogues(args.dialogues, args.seed)
    known = {v[slot] for v, _ in train for slot in ("system", "code", "ticket")}
    dev = [turns for _, turns in make_dialogues(max(args.dialogues // 50, 4), args.seed + 1)]
    tests = {
        "known wording": make_dialogues(args.test, args.seed + 2, False, known),
        "new wording": make_dialogues(args.test, args.seed + 3, True, known),
    }
    examples = [turns for _, turns in train]
    sides = [exchanges(side, "desk") for side in (examples, dev)]
    print(f"{len(train):,} dialogues, such as")
    for turn in examples[0]:
        print(f"  {turn.speaker:>6}: {turn.text}")
    print("The values of the tests are new.\n", flush=True)
    talkers, files, rows = {}, {}, {}
    for name, network in networks(args.recurrent).items():
        run = Talker.train(
            *sides,
            args.run_dir / name.replace(" ", "-"),
            data={"vocabulary_size": 420, "max_turns": 3, "max_context": 96, "max_answer": 64},
            model=network.pop("model"),
            training={"epochs": args.epochs, "seed": args.seed, **network},
            log=print,
            verbose=2,
        )
        if not run.complete:
            raise SystemExit("Interrupted. Run the same command again to resume.")
        talkers[name], files[name] = Talker.load(run.best), run.best
        for test, some in tests.items():
            rows[f"{name}, {test}"] = slots_right(talkers[name], some)
            print(f"{name}, {test}: {rows[f'{name}, {test}']}", flush=True)
    print("\n" + table(rows) + "\n")
    (args.run_dir / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")

    values, _ = tests["known wording"][0]
    values = {**values, "next": dict(STEPS)["checked the cable"]}
    turns: tuple[str, ...] = ()
    for line in CHAT:
        turns = (*turns, line.format(**values))
        print(f"> {turns[-1]}")
        turns = (*turns, talkers["attention"].answer(turns))
        print(turns[-1], flush=True)
    share = look(talkers["attention"], values, turns[:3], args.run_dir / "ticket.png")
    print(
        f"\nThe digits of the ticket in the answer look at those in the turns with {share:.0%} of"
    )
    print(f"their attention: {args.run_dir / 'ticket.png'}")
    print(f"\nTalk on: keras-attn conversation chat --model {shlex.quote(str(files['attention']))}")


def table(rows: dict[str, dict[str, float]]) -> str:
    """A row for each network and test."""
    names = list(next(iter(rows.values())))
    lines = [f"| values right | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row, figures in rows.items():
        lines.append(f"| {row} | {' | '.join(f'{figures[name]:.3f}' for name in names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
