import json
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from ragq.engine.generation import Generation
from ragq.engine.grammar import Vocabulary, compile_schema
from ragq.engine.llama import LlamaEngine, Piece
from ragq.engine.models import model_path
from ragq.engine.sampling import Sampling
from ragq.engine.schema import DRAFT_7, SchemaError
from ragq.engine.structured import generate
from ragq.errors import ModelError

BYTES = Vocabulary([bytes([i]) for i in range(256)] + [b""], [256])


def holds(schema, text):
    constraint = compile_schema(schema, BYTES).start()
    for byte in text.encode():
        if not constraint.allows(byte):
            return False
        constraint.accept(byte)
    return constraint.is_complete()


class Place(BaseModel):
    ward: str = Field(pattern=r"^[A-Z]\d{1,2}$")
    floor: int | None = None


class Dose(BaseModel):
    model_config = ConfigDict(extra="forbid")
    drug: str = Field(min_length=2, max_length=20)
    mg: float = Field(gt=0, le=1000)
    often: Literal["once daily", "twice daily"]
    days: list[int] = Field(default=[], max_length=3)
    place: Place | None = None


def test_a_pydantic_model_is_enforced_whole():
    grammar = compile_schema(Dose, BYTES)
    assert not grammar.checked
    assert holds(Dose, '{"drug": "apixaban", "mg": 2.5, "often": "twice daily", "place": {"ward": "B12"}}')


@pytest.mark.parametrize(
    "text",
    [
        '{"drug": "a", "mg": 5, "often": "once daily"}',  # too short
        '{"drug": "apixaban", "mg": 0, "often": "once daily"}',  # bound
        '{"drug": "apixaban", "mg": 1000.5, "often": "once daily"}',
        '{"drug": "apixaban", "mg": 5, "often": "often"}',  # enum
        '{"drug": "apixaban", "mg": 5, "often": "once daily", "days": [1, 2, 3, 4]}',
        '{"drug": "apixaban", "mg": 5, "often": "once daily", "place": {"ward": "b12"}}',  # pattern
        '{"drug": "apixaban", "mg": 5, "often": "once daily", "more": 1}',  # additional
        '{"drug": "apix\naban", "mg": 5, "often": "once daily"}',  # raw newline
        '{"drug": "apixaban", "mg": 5}',  # required
    ],
)
def test_what_the_schema_forbids_cannot_be_written(text):
    assert not holds(Dose, text)


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "dict"}, "type"),
        ({"type": "string", "pattern": "("}, "pattern"),
        ({"$ref": "http://example.org/other.json"}, "$ref"),
        ({"$ref": "file:///etc/passwd"}, "$ref"),
        ({"$ref": "#"}, "$ref"),
        ({"type": "string", "format": "postcode"}, "format"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 10**7}, "minItems"),
        ({"type": "string", "pattern": "^((((a{100}){100}){100}){100})$"}, "pattern"),
        ({"type": "integer", "minimum": 10**400}, "minimum"),
        ({"type": "object", "properties": {f"p{i}": {} for i in range(600)}}, "properties"),
        ({"type": "object", "required": ["z"], "additionalProperties": False}, "schema"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "$schema"),
        ([1, 2], "schema"),
        (None, "schema"),
        ({"const": "\ud800"}, "schema"),
        ({"const": float("nan")}, "schema"),
    ],
)
def test_a_schema_that_cannot_be_held_is_refused_by_keyword(schema, keyword):
    with pytest.raises(SchemaError) as refused:
        compile_schema(schema, BYTES)
    assert refused.value.keyword == keyword


def test_a_schema_nested_beyond_reason_is_refused():
    schema = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaError, match="nested deeper"):
        compile_schema(schema, BYTES)


def test_a_schema_cannot_loosen_the_compiler():
    with pytest.raises(SchemaError):
        compile_schema({"x-guidance": {"lenient": True}, "type": "string", "format": "postcode"}, BYTES)


def test_what_no_mask_holds_is_checked_after():
    grammar = compile_schema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, BYTES)
    assert grammar.checked == {"uniqueItems"}
    assert grammar.check([1, 2]) is None
    assert "non-unique" in grammar.check([1, 1])


def test_look_around_is_checked_after():
    grammar = compile_schema({"type": "string", "pattern": "^(?!0)[0-9]+$", "maxLength": 4}, BYTES)
    assert grammar.checked == {"pattern"}
    assert grammar.check("10") is None and grammar.check("01") is not None


def test_one_of_that_overlaps_is_checked_after():
    grammar = compile_schema({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]}, BYTES)
    assert grammar.checked == {"oneOf"}
    assert grammar.check(1) is None and grammar.check(3) is not None


def test_beside_a_reference_draft_7_ignores_all():
    schema = {"definitions": {"a": {"type": "array"}}, "properties": {"x": {"$ref": "#/definitions/a", "maxItems": 1}}}
    assert compile_schema(schema, BYTES, DRAFT_7).check({"x": [1, 2]}) is None
    assert compile_schema(schema, BYTES).check({"x": [1, 2]}) is not None


def test_classes_of_a_pattern_are_those_of_ecma():
    assert not holds({"type": "string", "pattern": r"^\d$"}, '"߀"')
    assert holds({"type": "string", "pattern": r"^\W$"}, '"é"')
    assert compile_schema({"type": "string", "pattern": r"^\W$"}, BYTES).check("é") is None


def test_masks_of_a_draft_stop_where_it_goes_wrong_and_leave_the_position():
    constraint = compile_schema({"enum": ["abc", "abd"]}, BYTES).start()
    masks = constraint.masks(b'"abx')
    assert len(masks) == 4
    assert set(masks[3].nonzero()[0]) == {ord("c"), ord("d")}
    assert set(constraint.mask().nonzero()[0]) == {ord('"')}
    constraint.accept_all(b'"ab')
    constraint.rollback(2)
    assert constraint.forced() == list(b"ab")


def test_a_forbidden_token_is_an_error_and_changes_nothing():
    constraint = compile_schema({"const": 1}, BYTES).start()
    with pytest.raises(ModelError, match="forbids"):
        constraint.accept(ord("2"))
    constraint.accept(ord("1"))
    assert constraint.is_complete()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(_VALUES, st.integers(0, 40))
def test_a_value_cut_anywhere_is_brought_to_an_end_that_parses(value, cut):
    constraint = compile_schema({}, BYTES).start()
    written = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")[:cut]
    taken = bytearray()
    for byte in written:
        if not constraint.allows(byte):
            break
        constraint.accept(byte)
        taken.append(byte)
    json.loads(bytes(taken) + bytes(constraint.close(bytes(taken))))


def test_closing_fills_what_is_required():
    constraint = compile_schema(Dose, BYTES).start()
    value = json.loads(bytes(constraint.close()))
    assert compile_schema(Dose, BYTES).check(value) is None


@pytest.fixture(scope="module")
def engine(models_dir):
    engine = LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=512, threads=1)
    yield engine
    engine.close()


def _prompt(engine, text):
    before, between, after = engine.chat_frame()
    return before + engine.tokenize("You write JSON.") + between + engine.tokenize(text) + after


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.2, seed=5)])
@pytest.mark.parametrize("max_tokens", [3, 60])
def test_a_model_writes_what_parses_and_streams_it(engine, sampling, max_tokens):
    grammar = compile_schema(Dose, engine.vocabulary())
    events = list(
        engine.stream(
            _prompt(engine, "Prescription: apixaban 5 mg twice daily."),
            max_tokens=max_tokens,
            sampling=sampling,
            constraint=grammar.start(),
        )
    )
    done = events[-1]
    assert isinstance(done, Generation)
    assert "".join(e.text for e in events if isinstance(e, Piece)) == done.text
    assert grammar.check(json.loads(done.text)) is None


def test_forced_text_is_the_models_own_tokens(engine):
    constraint = compile_schema({"const": "apixaban twice daily"}, engine.vocabulary()).start()
    assert len(constraint.forced()) < len('"apixaban twice daily"') / 2


def test_what_fails_the_check_is_asked_for_once_more(engine):
    schema = {"type": "array", "items": {"const": 7}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
    made = generate(engine, _prompt(engine, "Two numbers."), compile_schema(schema, engine.vocabulary()))
    assert made.retried and made.value == [7, 7] and "non-unique" in made.problem
