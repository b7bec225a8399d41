"""Headers of GGUF files: read as the reference package reads them, and refused when they lie."""

import struct

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragq.engine.facts import facts
from ragq.engine.gguf import TYPES, LongArray, NeedMoreError, parse, parse_by_parts, read_gguf
from ragq.engine.models import model_path
from ragq.errors import ModelError

Q = gguf.GGMLQuantizationType


def written(path, arch="llama", keys=None, tensors=()):
    """A GGUF file of empty-valued tensors: `tensors` are (name, shape as ggml counts it, type)."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in (keys or {}).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, float: writer.add_float32}
        add.get(type(value), writer.add_array)(key, value)
    for name, shape, kind in tensors:
        _, block, size = TYPES[kind.value]
        rows = (*reversed(shape[1:]), shape[0] // block * size)
        writer.add_tensor(name, np.zeros(rows, dtype=np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


LLAMA = {
    "llama.block_count": 2, "llama.embedding_length": 64, "llama.context_length": 512, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "words": ["a", "bc", "déf"], "numbers": [1, 2, 3], "yes": True, "third": 1 / 3,
}  # fmt: skip
TWO_LAYERS = [
    ("token_embd.weight", (64, 100), Q.Q8_0), ("blk.0.attn_k.weight", (64, 32), Q.Q4_0),
    ("blk.1.attn_k.weight", (64, 32), Q.F16), ("output_norm.weight", (64,), Q.F32),
]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return written(tmp_path_factory.mktemp("gguf") / "small.gguf", keys=LLAMA, tensors=TWO_LAYERS)


def test_block_sizes_are_those_of_the_reference():
    assert {t.value: (t.name, *size) for t, size in gguf.GGML_QUANT_SIZES.items()} == TYPES


def test_a_real_header_is_read_as_the_reference_reads_it(models_dir):
    path = model_path("smollm2-135m", models_dir)
    found, expected = read_gguf(path), gguf.GGUFReader(path)
    assert [(t.name, t.type, t.shape, t.offset, t.nbytes) for t in found.tensors] == [
        (t.name, t.tensor_type.name, tuple(map(int, t.shape)), int(t.data_offset), int(t.n_bytes))
        for t in expected.tensors
    ]
    assert found.metadata["general.name"] == expected.fields["general.name"].contents()
    assert found.metadata["tokenizer.ggml.tokens"] == LongArray(49152)
    assert found.data_start == expected.data_offset


def test_values_of_every_kind(small):
    metadata = read_gguf(small).metadata
    assert metadata["words"] == ("a", "bc", "déf")
    assert metadata["numbers"] == (1, 2, 3)
    assert metadata["yes"] is True
    assert metadata["third"] == pytest.approx(1 / 3)


def header(keys=b"", n_keys=0, tensors=b"", n_tensors=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + keys + tensors


def string(text):
    return struct.pack("<Q", len(text)) + text


def info(name=b"t", dims=(32,), kind=2, offset=0):
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


HOSTILE = {
    "no GGUF": (b"PK\3\4" + bytes(40), "expected the first bytes GGUF"),
    "version 1": (header(version=1), "expected version 2 or 3"),
    "big endian": (header(version=3 << 24), "big-endian"),
    "countless tensors": (header(n_tensors=1 << 60), "tensors, at most"),
    "countless keys": (header(n_keys=1 << 63), "keys, at most"),
    "endless key": (header(struct.pack("<Q", 1 << 62), 1), "a key of"),
    "endless string": (header(string(b"k") + struct.pack("<IQ", 8, (1 << 64) - 1), 1), "needs 18446744073709551615"),
    "endless array": (header(string(b"k") + struct.pack("<IIQ", 9, 4, 1 << 62), 1), "needs"),
    "endless strings": (header(string(b"k") + struct.pack("<IIQ", 9, 8, 1 << 62), 1), "strings, more than"),
    "nested arrays": (header(string(b"k") + struct.pack("<IIQ", 9, 9, 1) + bytes(64), 1), "nested type"),
    "unknown value": (header(string(b"k") + struct.pack("<I", 77), 1), "unknown type 77"),
    "key twice": (header((string(b"k") + struct.pack("<IB", 0, 1)) * 2, 2), "stands twice"),
    "odd alignment": (header(string(b"general.alignment") + struct.pack("<II", 4, 48), 1), "power of two"),
    "text as alignment": (header(string(b"general.alignment") + struct.pack("<I", 8) + string(b"32"), 1), "power of two"),
    "no dimension": (header(tensors=info(dims=()), n_tensors=1), "0 dimensions"),
    "nine dimensions": (header(tensors=info(dims=(32,) * 9), n_tensors=1), "9 dimensions"),
    "overflowing shape": (header(tensors=info(dims=(1 << 32, 1 << 32, 2)), n_tensors=1), "does not fit"),
    "empty shape": (header(tensors=info(dims=(0, 5)), n_tensors=1), "does not fit"),
    "part of a block": (header(tensors=info(dims=(33,)), n_tensors=1), "blocks of 32"),
    "unknown tensor type": (header(tensors=info(kind=4), n_tensors=1), "unknown type 4"),
    "tensor behind the end": (header(tensors=info(dims=(32, 1 << 20)), n_tensors=1), "the file has"),
    "tensor elsewhere": (header(tensors=info(offset=64), n_tensors=1) + bytes(400), "begins at 64"),
    "overlapping": (header(tensors=info() + info(b"u"), n_tensors=2) + bytes(400), "begins at 0, expected 32"),
    "same name": (header(tensors=info() + info(offset=32), n_tensors=2) + bytes(400), "stands twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_header_is_refused_with_the_reason(case):
    data, reason = HOSTILE[case]
    with pytest.raises(ModelError, match=reason):
        parse(data, len(data), "x.gguf")


def test_a_truncated_file_is_refused_at_every_length(small):
    data = small.read_bytes()
    for length in range(0, len(data) - 32, 7):
        with pytest.raises(ModelError):
            parse(data[:length], length, "x.gguf")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_gives_a_header_or_a_clear_error(small, data):
    damaged = bytearray(small.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        facts(parse(bytes(damaged), len(damaged), "x.gguf"), "x.gguf")
    except ModelError as error:
        assert "x.gguf" in str(error)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_after_the_magic_are_survived(rest):
    try:
        parse(b"GGUF\3\0\0\0" + rest, 8 + len(rest), "x.gguf")
    except ModelError as error:
        assert "x.gguf" in str(error)


def test_a_long_header_is_fetched_in_parts(models_dir):
    path = model_path("smollm2-135m", models_dir)
    whole, asked = path.read_bytes(), []

    def fetch(size):
        asked.append(size)
        return whole[:size], len(whole)

    assert parse_by_parts(fetch, "x.gguf", first=1000) == read_gguf(path)
    assert max(asked) < len(whole) / 10
    with pytest.raises(NeedMoreError):
        parse(whole[:5000], len(whole), "x.gguf")
    with pytest.raises(ModelError, match="longer than 100000 bytes"):
        parse_by_parts(fetch, "x.gguf", first=1000, limit=100_000)


def test_a_folder_and_an_empty_file_are_refused(tmp_path):
    (tmp_path / "empty.gguf").touch()
    for path in (tmp_path, tmp_path / "empty.gguf", tmp_path / "none.gguf"):
        with pytest.raises(ModelError, match=str(path)):
            read_gguf(path)
