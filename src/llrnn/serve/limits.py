"""Everything that the server bounds, in one table: what, how much, and what is answered beyond it.

The bounds of single fields stand in the OpenAPI description too, since `messages` takes them from here. Those of the
server itself (`Limits`) can be set when it is started; no request can change any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from llrnn.ground.errors import ConfigError, LLRNNError

# A request that is not answered, and why: one exception, which the API turns into a status and two fields.


class Refused(LLRNNError):  # noqa: N818 (what it says: the request is refused)
    """An HTTP status, a code for programs, and a sentence for people: what was required, what was found, what to do."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    def body(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True)
class Limit:
    """One row: `message` may name the bound as {most} and what was found as {found}."""

    name: str
    most: int
    meaning: str
    status: int
    code: str
    message: str

    def refused(self, *, found: int | None = None, most: float | None = None) -> Refused:
        """What is answered beyond this limit; `most` where the server was started with another."""
        bound = self.most if most is None else most
        counted = "more" if found is None or found > 10**18 else f"{found:,}"
        said = self.message.format(most=f"{int(bound):,}" if bound == int(bound) else bound, found=counted)
        return Refused(self.status, self.code, said, _HEADERS.get(self.status))


# a client may come back when there is room; of one that is slow no more is read
_HEADERS = {408: {"Connection": "close"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}

_ROWS: tuple[tuple[str, int, str, int, str, str], ...] = (
    # the server
    ("body_bytes", 262_144, "bytes of a request's body", 413, "body_too_large",
     "the body must have at most {most} bytes, found {found}; send less text at once"),
    ("body_seconds", 10, "seconds to send the body", 408, "slow_client",
     "the body must arrive within {most} seconds; send it at once, or less of it"),
    ("header_seconds", 10, "seconds to send the request line and the headers", 408, "slow_client",
     "the headers must arrive within {most} seconds; send them at once"),
    ("header_bytes", 16_384, "bytes of the request line and the headers", 431, "headers_too_large",
     "the request line and the headers must have at most {most} bytes; send what is long in the body"),
    ("seconds", 30, "seconds to work on a request and to send the answer", 503, "took_too_long",
     "an answer may take at most {most} seconds; ask for less at once, or try again when the server is less busy"),
    ("in_flight", 64, "requests that are worked on at a time", 429, "too_many_requests",
     "the server works on at most {most} requests at a time, and for each of n clients on 1 / (n + 1) of them; "
     "try again after the seconds that Retry-After says"),
    ("connections", 512, "open connections", 429, "too_many_requests",
     "the server keeps at most {most} connections open; close some, or try again later"),
    ("client_connections", 48, "open connections of one address", 429, "too_many_requests",
     "one address may keep at most {most} connections open; close some, or send requests one after the other"),
    # single fields
    ("body_commas", 6000, "commas in a request's body", 413, "body_too_large",
     "the body must have at most {most} commas, found {found}; send fewer words or texts at once"),
    ("work", 20_000, "work of a request, in words that are read (see below)", 422, "too_much_work",
     "a request may cost at most as much as reading {most} words, found {found}; "
     "send fewer or shorter texts, conditions or patterns at once"),
    ("prefix_words", 1000, "words of a prefix", 422, "prefix_too_long",
     "the prefix must have at most {most} words, found {found}; leave out the first ones"),
    ("prefix_characters", 20_000, "characters of a prefix written as one string", 422, "prefix_too_long",
     "the prefix must have at most {most} characters, found {found}; leave out the first words"),
    ("influence_words", 200, "words of a prefix whose influence is asked", 422, "prefix_too_long",
     "influence looks at a prefix of at most {most} words, found {found}; leave out the first ones"),
    ("max_words", 500, "words to be generated", 422, "too_many_words",
     "max_words must be at most {most}, found {found}; go on from the text in a second request"),
    ("words", 1000, "words whose probability is asked", 422, "too_many_words",
     "words must list at most {most} words, found {found}; ask for the others in a second request"),
    ("top", 1000, "most probable words to be listed", 422, "top_too_large",
     "top must be at most {most}, found {found}; name single words in `words`"),
    ("texts", 64, "texts to be scored at once", 422, "batch_too_large",
     "texts must list at most {most} texts, found {found}; score the others in a second request"),
    ("text_words", 4000, "words of all texts to be scored at once", 422, "batch_too_large",
     "all texts together must have at most {most} words, found {found}; score some in a second request"),
    ("one_text_words", 1000, "words of a single text to be scored", 422, "batch_too_large",
     "a text must have at most {most} words, found {found}; cut it into sentences"),
    ("text_characters", 20_000, "characters of a text to be scored", 422, "text_too_long",
     "a text must have at most {most} characters, found {found}; send a shorter one"),
    ("condition_characters", 4000, "characters of a condition", 422, "text_too_long",
     "a condition must have at most {most} characters, found {found}; send a shorter one"),
    ("changes", 200, "changes of weights", 422, "too_many_changes",
     "changes must list at most {most} changes, found {found}; a pattern with * changes many features at once"),
    ("pattern_names", 200_000, "names that the patterns of a request look through: patterns × features of the model",
     422, "too_many_changes",
     "all patterns with * together may look through at most {most} names of features, found {found}; "
     "send fewer patterns, or name features one by one"),
    ("characters", 1000, "characters of a word, or of a name", 422, "text_too_long",
     "a word or a name must have at most {most} characters, found {found}; send a shorter one"),
    ("listing", 1000, "features or words to be listed", 422, "listing_too_long",
     "limit must be at most {most}, found {found}; narrow the query"),
)  # fmt: skip

LIMITS: Mapping[str, Limit] = {row[0]: Limit(*row) for row in _ROWS}


def most(name: str) -> int:
    """The bound of a field."""
    return LIMITS[name].most


@dataclass(frozen=True)
class Limits:
    """The bounds of a server, which whoever starts it may change."""

    body_bytes: int = most("body_bytes")
    body_seconds: float = most("body_seconds")
    header_seconds: float = most("header_seconds")
    header_bytes: int = most("header_bytes")
    seconds: float = most("seconds")
    in_flight: int = most("in_flight")
    connections: int = most("connections")
    client_connections: int = most("client_connections")

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be above 0 and finite, found {value}: {LIMITS[name].meaning}")

    def refused(self, name: str, *, found: int | None = None) -> Refused:
        """What this server answers beyond one of its bounds."""
        return LIMITS[name].refused(found=found, most=getattr(self, name))
