"""Chats in OpenAI's form, with tasks that converse or continue texts."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keras_attn.generation import Ending
from keras_attn.serve.problems import RequestProblem
from keras_attn.serve.served_model import bad, shown
from keras_attn.tasks import Talker, Task, TextGenerator

_KNOWN = (
    "model", "messages", "stream", "stream_options", "user", "n", "temperature", "top_p", "seed",
    "max_tokens", "max_completion_tokens", "stop",
)  # fmt: skip
_ROLES = ("system", "developer", "user", "assistant")


class Asked(NamedTuple):
    """A request for an answer in a chat."""

    chat: Chat
    texts: list[str]
    settings: dict[str, Any]
    stream: bool
    usage: bool
    """Whether a stream ends with the numbers of tokens."""
    id: str
    created: int

    def pieces(self) -> Iterator[str | Ending]:
        """Yields the pieces of the answer while it is generated, and then its `Ending`."""
        ending = yield from self.chat.pieces(self.texts, self.settings)
        yield ending

    def whole(self, pieces: Sequence[str | Ending]) -> dict[str, object]:
        """Returns the complete response, given all that `pieces` yields."""
        texts = [piece for piece in pieces if isinstance(piece, str)]
        (ending,) = (piece for piece in pieces if not isinstance(piece, str))
        message = {"role": "assistant", "content": "".join(texts)}
        choice = {"index": 0, "message": message, "finish_reason": _reason(ending)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._used(ending)}

    async def events(
        self, first: str | Ending, pieces: AsyncIterator[str | Ending]
    ) -> AsyncIterator[str]:
        """Yields server-sent events: the role, the pieces, the end."""
        yield self._event({"role": "assistant", "content": ""})
        piece = first
        while isinstance(piece, str):
            yield self._event({"content": piece})
            piece = await anext(pieces)
        yield self._event({}, _reason(piece))
        if self.usage:
            head = self._head("chat.completion.chunk")
            yield _event({**head, "choices": [], "usage": self._used(piece)})
        yield "data: [DONE]\n\n"

    def _event(self, delta: dict[str, str], end: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.chat.name}

    def _used(self, ending: Ending) -> dict[str, int]:
        asked, given = self.chat.count("\n".join(self.texts)), ending.num_tokens
        return {
            "prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given,
        }  # fmt: skip


class Chat:
    """Chats with a task: a `Talker`, which answers turns, or a `TextGenerator`.

    Args:
        name: Name of the model in requests.
        task: The task.
    """

    def __init__(self, name: str, task: Talker | TextGenerator):
        self.name = name
        self.task = task

    @classmethod
    def of(cls, name: str, task: Task) -> Chat | None:
        """Returns the `Chat` of a task; None if the task cannot chat."""
        return cls(name, task) if isinstance(task, Talker | TextGenerator) else None

    def count(self, text: str) -> int:
        """Returns the number of tokens of a text."""
        (ids,) = self.task.tokenizer.encode([text])
        return len(ids)

    def asked(self, body: Mapping[str, object]) -> Asked:
        """Converts the JSON body of a request to an `Asked`.

        Raises:
            RequestProblem: If the request is malformed, or has a setting that the model does not
                support.
        """
        given = {name: value for name, value in body.items() if value is not None}
        unknown = [name for name in given if name not in _KNOWN]
        if unknown or given.get("n", 1) != 1:
            raise bad(
                f"names among {', '.join(_KNOWN)}, and `n` of 1", shown(unknown or given["n"])
            )
        texts = _texts(given.get("messages"))
        stream, options = given.get("stream", False), given.get("stream_options", {})
        if not isinstance(stream, bool) or not isinstance(options, dict):
            raise bad("true or false as `stream`, an object as `stream_options`", shown(stream))
        most = given.get("max_completion_tokens", given.get("max_tokens"))
        try:
            made = self._settings(given, most)
            self.task.used(made)
        except (TypeError, ValueError) as error:
            raise RequestProblem(400, str(error)) from error
        usage = bool(options.get("include_usage"))
        made_id = f"chatcmpl-{uuid.uuid4().hex}"
        return Asked(self, texts, made, stream, usage, made_id, int(time.time()))

    def _settings(self, given: Mapping[str, object], most: object) -> dict[str, Any]:
        """Settings of the task. A temperature of 0 is the most probable answer.

        A conversation model without settings of sampling searches or samples as its own settings
        say.
        """
        numbers = ("temperature", "top_p", "seed")
        for name in numbers:
            value = given.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise bad(f"a number as `{name}`", shown(value))
        drawn = {"seed": self.task.own_use.get("seed", secrets.randbelow(2**31))}
        made: dict[str, Any] = {name: given[name] for name in numbers if name in given}
        if isinstance(self.task, Talker):
            if most is not None or "stop" in given:
                raise RequestProblem(
                    400, "`max_tokens` and `stop` are not supported: a conversation model "
                        f"ends each answer itself, after at most {self.task.data.max_answer} "
                        "tokens."
                )  # fmt: skip
            sampled = {"search": "sample", **drawn, **made}
            if made.get("temperature") == 0:
                self.task.used({**sampled, "temperature": 1.0})  # the others are checked
                return {"search": "beam"}
            return sampled if made or self.task.own_use.get("search") == "sample" else {}
        if made.get("temperature") == 0:
            self.task.used({**made, "temperature": 1.0})
            made = {"top_k": 1}
        else:
            made = {**drawn, **made}
        stops = given.get("stop", [])
        stops = [stops] if isinstance(stops, str) else stops
        if (
            not isinstance(stops, list)
            or len(stops) > 4
            or not all(isinstance(x, str) and x for x in stops)
        ):
            raise bad("at most 4 strings as `stop`", shown(stops))
        number = 256 if most is None else most
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 4096:
            raise bad("1 to 4096 `max_tokens`", shown(most))
        return {**made, "num_characters": number, **({"stop": tuple(stops)} if stops else {})}

    def pieces(self, texts: list[str], settings: dict[str, Any]) -> Generator[str, None, Ending]:
        """Yields the answer to the texts of a chat, in pieces, and returns its ending."""
        if isinstance(self.task, TextGenerator):
            return (yield from self.task.stream("\n".join(texts), **settings))
        # A search knows the first word of the answer when it knows the last one.
        ((answer, ending),) = self.task.answers([tuple(texts)], self.task.used(settings))
        words = answer.split(" ")
        yield from (word if i == 0 else f" {word}" for i, word in enumerate(words))
        return ending


def _texts(messages: object) -> list[str]:
    """The texts of the messages of a chat, without those of the system."""
    if not isinstance(messages, list) or not messages:
        raise bad("a list of `messages`", shown(messages))
    texts = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and all(
            isinstance(x, dict) and x.get("type") == "text" and isinstance(x.get("text"), str)
            for x in content
        ):
            content = "".join(part["text"] for part in content)
        if role not in _ROLES or not isinstance(content, str):
            raise bad(
                f"messages with `role` ({', '.join(_ROLES)}) and text as `content`", shown(message)
            )
        if any("\ud800" <= character <= "\udfff" for character in content):
            raise bad("`content` of Unicode", "a lone surrogate")
        if role in ("user", "assistant"):
            texts.append(content)
    if not texts:
        raise bad("a message of the user", "none")
    return texts


def _reason(ending: Ending) -> str:
    return "length" if ending.truncated else "stop"


def _event(value: dict[str, object]) -> str:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return f"data: {text}\n\n"
