import json

from ragq.engine.grammar import Vocabulary, compile_schema
from ragq.tools.calling import stated
from ragq.tools.function import call_schema, from_openai

WEATHER = from_openai(
    {
        "type": "function",
        "function": {
            "name": "weather.get",
            "description": "Weather of a place.",
            "parameters": {
                "type": "dict",
                "properties": {
                    "city": {"type": "string", "description": "City name."},
                    "days": {"type": "integer", "description": "Days ahead.", "default": 1},
                    "unit": {"type": "string", "enum": ["C", "F"], "description": "Unit."},
                    "box": {"type": "tuple", "items": {"type": "float"}, "description": "Bounds."},
                    "with_wind": {"type": "boolean", "description": "Wind too."},
                },
                "required": ["city"],
            },
        },
    }
)
BYTES = Vocabulary([bytes([i]) for i in range(256)] + [b""], [256])


def test_types_of_other_languages_become_those_of_json_schema():
    assert WEATHER.parameters["type"] == "object"
    assert WEATHER.arguments["box"] == {"type": "array", "items": {"type": "number"}, "description": "Bounds."}
    assert WEATHER.parameters["additionalProperties"] is False


def test_a_signature_has_the_required_arguments_first():
    assert WEATHER.signature().splitlines()[0] == (
        "def weather.get(city: str, days: int = None, unit: Literal['C', 'F'] = None, box: list[float] = None, "
        "with_wind: bool = None):"
    )


def test_a_call_is_of_a_known_function_with_its_arguments():
    grammar = compile_schema(call_schema([WEATHER], answer=True), BYTES)
    assert not grammar.checked
    assert grammar.check({"tool": "weather.get", "args": {"city": "Lima"}}) is None
    assert grammar.check({"answer": "It rains."}) is None
    for wrong in ({"tool": "other", "args": {}}, {"tool": "weather.get", "args": {}}, {"answer": ""}):
        assert grammar.check(wrong)
    json.loads(bytes(grammar.start().close()))


def test_optional_arguments_that_the_request_does_not_state_are_left_out():
    given = {"city": "Lima", "days": 3, "unit": "C", "with_wind": True}
    assert stated(given, WEATHER, "weather in Lima") == {"city": "Lima"}
    assert stated(given, WEATHER, "weather in Lima for three days in C, with wind") == given
    assert stated({"city": "Lima", "days": 1}, WEATHER, "tomorrow in Lima") == {"city": "Lima"}
