r"""Regular expressions over symbols, which stand between blanks.

the ( big | small )* /[a-z]+/ cat

word  "("  "C++"      a symbol; in quotes where it holds one of ( ) | * + ? or begins with " or /      (\" \\ in quotes)
/[0-9]+/              one symbol that matches a regular expression of Python's as a whole              (\/ within)
x y   x | y   ( x )   one after the other, either, a group; ( ) is nothing
x*  x+  x?            any number of times, once or more, once or not
x <0.3>               for a factor
x*<0.5>  x+<0.5>      each time, or each further time, for a factor; x?<0.5>: for a factor if it is there
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.expressions import NOTHING, Choice, Expression, Sequence, letter, matching

DEEPEST = 100  # groups within groups
_WEIGHT = r"<\s*[-+0-9.][-+0-9.eE]*\s*>"
_TOKENS = re.compile(
    rf"""(?P<blank>\s+)
    | (?P<sign>[()|*+?])
    | (?P<weight>{_WEIGHT})
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<regex>/(?:[^/\\]|\\.)*/)
    | (?P<word>[^\s()|*+?"/](?:(?!{_WEIGHT})[^\s()|*+?])*)""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def symbolic(text: str) -> Expression:
    """The sequences of symbols that an expression describes."""
    parser = _Parser(text)
    if parser.next.kind == "end":
        parser.refuse('found nothing; write symbols, such as  the ( big | small )* cat,  or ( ) for "nothing"')
    found = parser.choice()
    if parser.next.kind != "end":
        parser.refuse("this ')' closes no group; for the symbol write \")\"")
    return found


class _Parser:
    """Recursive descent over tokens."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.tokens = [*self.read(), _Token("end", "", len(text))]

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        column = (self.next.at if at is None else at) + 1
        raise BackgroundError(f"the expression {self.text!r} is wrong at column {column}: {reason}")

    def read(self) -> list[_Token]:
        found, at = list[_Token](), 0
        while at < len(self.text):
            match = _TOKENS.match(self.text, at)
            if match is None:
                self.refuse(f"this {self.text[at]} is not closed; for the sign itself write quotes around it", at)
            if match.lastgroup != "blank":
                found.append(_Token(str(match.lastgroup), match[0], at))
            at = match.end()
        return found

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def takes(self, *signs: str) -> str:
        """The next token, taken, if it is one of these signs; otherwise nothing."""
        if self.next.kind != "sign" or self.next.text not in signs:
            return ""
        self.place += 1
        return self.tokens[self.place - 1].text

    def choice(self) -> Expression:
        parts = [self.sequence()]
        while self.takes("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Expression:
        parts = list[Expression]()
        while self.next.kind != "end" and not (self.next.kind == "sign" and self.next.text in "|)"):
            parts.append(self.item())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def item(self) -> Expression:
        found = self.base()
        while True:
            if sign := self.takes("*", "+", "?"):
                found = self.repeated(found, sign)
            elif self.next.kind == "weight":
                found = found.weighted(self.weight())
            else:
                return found

    def repeated(self, part: Expression, sign: str) -> Expression:
        factor = self.weight() if self.next.kind == "weight" else 1.0
        if sign == "?":
            return Choice((part if factor == 1.0 else part.weighted(factor), NOTHING))
        again = part.repeated(again=factor)
        return again if sign == "*" else Sequence((part, again))

    def weight(self) -> float:
        token = self.next
        try:
            value = float(token.text[1:-1])
        except ValueError:
            self.refuse(f"{token.text} is no number")
        if not 0.0 < value < float("inf"):
            self.refuse(f"a weight must be above 0 and finite, found {token.text}")
        self.place += 1
        return value

    def base(self) -> Expression:
        token = self.next
        if token.kind == "sign":
            if token.text == "(":
                return self.group()
            self.refuse(f'there is nothing before this {token.text} to repeat; for the symbol write "{token.text}"')
        if token.kind == "weight":
            self.refuse(f'there is nothing before {token.text} to weigh; for the symbol write "{token.text}"')
        self.place += 1
        if token.kind == "regex":
            return self.matching(token)
        return letter(token.text if token.kind == "word" else self.unquoted(token))

    def group(self) -> Expression:
        at, self.place, self.depth = self.next.at, self.place + 1, self.depth + 1
        if self.depth > DEEPEST:
            self.refuse(f"more than {DEEPEST} groups within each other", at)
        found = self.choice()
        if not self.takes(")"):
            self.refuse("this '(' is not closed; for the symbol write \"(\"", at)
        self.depth -= 1
        return found

    def matching(self, token: _Token) -> Expression:
        regex = token.text[1:-1].replace("\\/", "/")
        try:
            re.compile(regex)
        except re.error as error:
            self.refuse(f"/{regex}/ is no regular expression: {error}", token.at)
        return matching(regex)

    def unquoted(self, token: _Token) -> str:
        symbol = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
        if not symbol:
            self.refuse("a symbol has one character or more; for nothing write ( )", token.at)
        return symbol
