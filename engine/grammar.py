"""Grammar: a JSON schema as a mask over the vocabulary, position by position, so that what is sampled always parses.

llguidance compiles the schema and computes the masks; docs/tools.md has the measurements that chose it over
llama.cpp's own grammars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine import schema as schemas
from ragq.engine.closing import Closing, Place
from ragq.engine.schema import DRAFT_7, DRAFT_2020, SchemaError
from ragq.errors import ModelError

Mask = NDArray[np.bool_]
# `{"a": 1, "b": [2]}`: the spelling of json.dumps, one way only, so that no model can drift off into blanks.
_SPELLING = {
    "whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": False, "coerce_one_of": False,
}  # fmt: skip
# Assertions that may be left to the check of the finished value.
_AFTER = frozenset(
    "$dynamicRef contains contentEncoding contentMediaType contentSchema dependencies dependentRequired dependentSchemas else format if"
    " maxContains maximum minContains minimum exclusiveMaximum exclusiveMinimum maxProperties minProperties multipleOf not oneOf pattern"
    " patternProperties propertyNames then unevaluatedItems unevaluatedProperties uniqueItems".split()
)
_MAX_WEAKENED = 12
# What can keep a value from coming to an end.
_LENGTHENING = frozenset("$ref minItems minLength minProperties pattern patternProperties".split())


class Vocabulary:
    """The tokens of one model as llguidance wants them."""

    def __init__(
        self, tokens: Sequence[bytes], ends: Sequence[int], tokenize: Callable[[str], list[int]] | None = None
    ) -> None:
        """`tokens` are the bytes of every id, empty for those that are no text; `ends` the ids that end an answer;
        `tokenize` is the model's own, by which forced text becomes the tokens that the model would write.
        """
        from llguidance import LLTokenizer, TokenizerWrapper

        self.size, self.ends = len(tokens), tuple(ends)
        self._tokens = tokens
        self.tokenizer = LLTokenizer(
            TokenizerWrapper(_Source(tokens, ends, tokenize)), n_vocab=self.size, eos_token=list(ends)
        )

    def piece(self, token: int) -> bytes:
        """Bytes of a token; those that end an answer have none."""
        return b"" if token in self.ends else self._tokens[token]

    @cached_property
    def closing(self) -> Closing:
        """The tokens in the order in which to try them when a value must be brought to an end."""
        return Closing([self.piece(t) for t in range(self.size)])


class _Source:
    """What llguidance's TokenizerWrapper reads; without a tokenizer, text goes byte by byte."""

    def __init__(
        self, tokens: Sequence[bytes], ends: Sequence[int], tokenize: Callable[[str], list[int]] | None
    ) -> None:
        self.eos_token_id, self.bos_token_id = ends[0], None
        self.special_token_ids = [i for i, t in enumerate(tokens) if not t]
        self.tokens = [t or b"\xff<special>" for t in tokens]
        self._bytes = {t: i for i, t in enumerate(tokens) if len(t) == 1}
        self._tokenize = tokenize

    def __call__(self, text: bytes | str) -> list[int]:
        data = text if isinstance(text, bytes) else text.encode()
        if self._tokenize is not None:
            try:
                return self._tokenize(data.decode("utf-8"))
            except UnicodeDecodeError:
                pass
        return [self._bytes[data[i : i + 1]] for i in range(len(data)) if data[i : i + 1] in self._bytes]


@dataclass(frozen=True)
class Grammar:
    """A compiled schema. `checked` names the assertions that no mask holds: the finished value is checked for them,
    and asked for once more if it fails.
    """

    schema: dict[str, Any]
    source: str
    checked: frozenset[str]
    vocabulary: Vocabulary
    _validator: Any = field(default=None, compare=False, repr=False)

    def start(self) -> Constraint:
        """A new position at the beginning of a value."""
        return Constraint(self)

    def check(self, value: Any) -> str | None:  # noqa: ANN401 - any JSON value
        """Why the value does not hold under the schema, or None when it does."""
        import jsonschema

        try:
            error = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        except (RecursionError, jsonschema.exceptions.UnknownType) as failure:
            return f"cannot be checked: {type(failure).__name__}"
        if error is None:
            return None
        where = "/".join(str(p) for p in error.absolute_path)
        return f"{f'{where}: ' if where else ''}{error.message[:300]}"


def compile_schema(schema: Any, vocabulary: Vocabulary, dialect: str = DRAFT_2020) -> Grammar:  # noqa: ANN401 - model or schema
    """A pydantic model or JSON schema as a grammar over a vocabulary.

    Assertions that llguidance does not implement are dropped from the grammar and listed in `checked`. Raises
    SchemaError, naming the keyword, for a schema that is invalid, refers to what is not in it, allows nothing, is too
    large, or asserts what neither the grammar nor the check can hold.
    """
    plain = schemas.read(schema, dialect)
    asserts = schemas.asserts_format(schema)
    weak = plain if asserts else schemas.without(plain, ["format"])
    dropped: set[str] = set()
    options: dict[str, Any] = dict(_SPELLING)
    for _ in range(_MAX_WEAKENED):
        source, problem = _compile(weak, vocabulary, options)
        if problem is None:
            _checkable(plain, dropped)
            made = Grammar(plain, source, frozenset(dropped), vocabulary, _validator(plain, asserts))
            _try(made)
            return made
        found = _blamed(problem) & {k for node in schemas.subschemas(weak) for k in node}
        if "oneOf" in found:
            # Some alternative holds; that no second one does is left to the check.
            options["coerce_one_of"] = True
        elif not found or found <= dropped or not found <= _AFTER:
            raise SchemaError(*_refusal(problem, found))
        else:
            weak = schemas.without(weak, found)
        dropped |= found
    raise SchemaError(", ".join(sorted(dropped)), "no grammar is left of it")


class Constraint:
    """One position in a value that is being written."""

    def __init__(self, grammar: Grammar) -> None:
        from llguidance import LLMatcher

        self.grammar = grammar
        self._vocabulary = grammar.vocabulary
        self._matcher = LLMatcher(self._vocabulary.tokenizer, grammar.source, log_level=0, limits=_limits())
        self._bits = np.zeros((1, (self._vocabulary.size + 31) // 32), dtype=np.int32)
        if problem := self._matcher.get_error():
            raise ModelError(f"the grammar failed to start: {problem.splitlines()[0]}")

    def mask(self) -> Mask:
        """Which tokens may come next: shape (n_vocab,). Raises ModelError when the grammar met a limit of its own."""
        from llguidance.numpy import fill_next_token_bitmask

        if self.is_finished():
            # The matcher itself allows nothing once it has stopped.
            mask = np.zeros(self._vocabulary.size, dtype=np.bool_)
            mask[list(self._vocabulary.ends)] = True
            return mask
        fill_next_token_bitmask(self._matcher, self._bits, 0)
        if problem := self._matcher.get_error():
            raise ModelError(f"the grammar met a limit: {problem.splitlines()[0]}")
        bits = np.unpackbits(self._bits.view(np.uint8)[0], bitorder="little")
        return bits[: self._vocabulary.size].astype(np.bool_)

    def masks(self, draft: Sequence[int]) -> list[Mask]:
        """The masks before each token of a draft and after the last, as far as the grammar allows them: for
        verifying the draft in one batch. The position is left where it was.
        """
        found = [self.mask()]
        taken = 0
        for token in draft:
            if not found[-1][token] or token in self._vocabulary.ends:
                break
            self.accept(token)
            taken += 1
            found.append(self.mask())
        self.rollback(taken)
        return found

    def agrees(self, draft: Sequence[int]) -> int:
        """How many tokens of a draft the grammar goes along with, from here on."""
        return 0 if self.is_finished() else int(self._matcher.validate_tokens(list(draft)))

    def allows(self, token: int) -> bool:
        """Whether one token may come next: microseconds, where a mask of the whole vocabulary costs more."""
        if token in self._vocabulary.ends:
            return self.is_complete()
        return not self.is_finished() and int(self._matcher.validate_tokens([token])) == 1

    def accept(self, token: int) -> None:
        """Go on by one token. Raises ModelError for one that the grammar forbids here."""
        if token in self._vocabulary.ends and self.is_complete():
            return
        if not self.allows(token) or not self._matcher.consume_token(token):
            raise ModelError(f"the grammar forbids token {token} ({self._vocabulary.piece(token)!r}) here")

    def accept_all(self, tokens: Sequence[int]) -> None:
        """Go on by several tokens."""
        for token in tokens:
            self.accept(token)

    def rollback(self, tokens: int) -> None:
        """Take the last `tokens` tokens back."""
        if tokens and not self._matcher.rollback(tokens):
            raise ModelError(f"the grammar cannot go back {tokens} tokens")

    def forced(self) -> list[int]:
        """The tokens that must come next whatever the model says; they need no logits."""
        return [] if self.is_finished() else list(self._matcher.compute_ff_tokens())

    def is_complete(self) -> bool:
        """Whether the value could end here."""
        return bool(self._matcher.is_accepting())

    def is_finished(self) -> bool:
        """Whether the value must end here."""
        return bool(self._matcher.is_stopped())

    def close(self, text: bytes = b"", limit: int = 2048) -> list[int]:
        """Bring the value, of which `text` is written, to an end in few tokens, without the model: strings are cut,
        required members get the least value. Returns the tokens.

        Raises ModelError when `limit` tokens do not suffice.
        """
        closing = self._vocabulary.closing
        out: list[int] = []
        place = Place().after(text)
        while not self.is_complete():
            if len(out) >= limit:
                raise ModelError(f"the value could not be ended within {limit} tokens")
            mask = self.mask()
            mask[list(self._vocabulary.ends)] = False
            token = closing.choose(mask, place)
            self.accept(token)
            place = place.after(self._vocabulary.piece(token))
            out.append(token)
        return out


def _try(grammar: Grammar) -> None:
    """A schema that allows no value, or none of reasonable length, is found out before a model works for it."""
    try:
        grammar.start().close()
    except (ModelError, ValueError) as error:
        found = {k for node in schemas.subschemas(grammar.schema) for k in node} & _LENGTHENING
        raise SchemaError(", ".join(sorted(found)) or "schema", f"no short value of it is found: {error}") from None


def _compile(schema: dict[str, Any], vocabulary: Vocabulary, options: dict[str, Any]) -> tuple[str, str | None]:
    """The grammar and None, or the first line of why not."""
    from llguidance import LLMatcher

    try:
        source = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)  # type: ignore[arg-type]
    except ValueError as error:
        return "", str(error).splitlines()[0]
    problem = LLMatcher(vocabulary.tokenizer, source, log_level=0, limits=_limits()).get_error()
    return source, " ".join(problem.split())[:400] if problem else None


def _limits() -> Any:  # noqa: ANN401 - llguidance is imported on first use
    from llguidance import LLParserLimits

    return LLParserLimits(max_grammar_size=100_000, step_lexer_fuel=100_000, verbose_errors=False)


_BLAME = (
    (re.compile(r"Unimplemented keys: \[(.*?)\]"), None),
    (re.compile(r"oneOf constraints are not supported"), "oneOf"),
    (re.compile(r"Unknown format"), "format"),
    (re.compile(r"look-around|look-ahead|backreferences"), "pattern patternProperties"),
    (re.compile(r"patternProperty regexes .* not disjoint"), "patternProperties"),
    (re.compile(r"'multipleOf'"), "multipleOf"),
    (re.compile(r"regex for (?:float|integer|int)"), "minimum maximum exclusiveMinimum exclusiveMaximum"),
    (re.compile(r"(?:minProperties|maxProperties)"), "minProperties maxProperties"),
)  # fmt: skip


def _blamed(problem: str) -> set[str]:
    """The keywords that llguidance names as what it cannot do."""
    for pattern, keywords in _BLAME:
        if m := pattern.search(problem):
            return set(keywords.split()) if keywords else set(re.findall(r'"([^"]+)"', m[1]))
    return set()


def _refusal(problem: str, found: set[str]) -> tuple[str, str]:
    if found:
        return ", ".join(sorted(found)), "not enforced"
    named = {"Unsatisfiable": "schema", "regex": "pattern", "Regex": "pattern", "Anchor": "$ref", "Resource": "$ref", "ointer": "$ref"}  # fmt: skip
    return next((keyword for word, keyword in named.items() if word in problem), "schema"), problem[:200]


def _checkable(schema: dict[str, Any], dropped: set[str]) -> None:
    if "format" in dropped and (strange := schemas.formats(schema) - schemas.CHECKED_FORMATS):
        raise SchemaError("format", f"nothing here checks {', '.join(sorted(strange))}")


def _validator(schema: dict[str, Any], asserts_format: bool) -> Any:  # noqa: ANN401 - jsonschema has no types
    import jsonschema
    from referencing import Registry

    kind = jsonschema.Draft7Validator if schema["$schema"] == DRAFT_7 else jsonschema.Draft202012Validator
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER if asserts_format else None)
