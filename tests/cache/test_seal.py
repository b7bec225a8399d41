import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError
from ragq.cache.key import is_private, make_key, read_key, where_kept
from ragq.cache.seal import OVERHEAD, is_sealed, seal, sealed_with, unseal
from ragq.errors import UsageError

KEY, OTHER = bytes(range(32)), bytes(32)


@given(st.binary(max_size=300), st.binary(max_size=20))
def test_what_is_sealed_comes_back_and_only_where_it_belongs(data, aad):
    sealed = seal(data, KEY, aad)
    assert unseal(sealed, KEY, aad) == data
    assert len(sealed) == len(data) + OVERHEAD
    assert unseal(sealed, OTHER, aad) is None
    assert unseal(sealed, KEY, aad + b"x") is None


def test_any_changed_or_missing_byte_is_nothing():
    sealed = seal(b"INR 1.8", KEY, b"a")
    for at in range(len(sealed)):
        assert unseal(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], KEY, b"a") is None
        assert unseal(sealed[:at], KEY, b"a") is None


def test_another_keys_record_is_told_from_a_damaged_one():
    sealed = seal(b"INR 1.8", KEY, b"a")
    assert sealed_with(sealed, KEY)
    assert not sealed_with(sealed, OTHER)
    assert is_sealed(sealed)
    assert not is_sealed(b"INR 1.8")


def test_equal_texts_seal_to_different_bytes():
    assert seal(b"INR 1.8", KEY, b"a") != seal(b"INR 1.8", KEY, b"a")


def test_a_key_file_is_private_and_not_made_twice(tmp_path):
    path = tmp_path / "new" / "cache.key"
    assert read_key(path) is None
    assert where_kept(path) == "none"
    key = make_key(path)
    assert read_key(path) == key
    assert where_kept(path) == "file"
    assert path.stat().st_mode & 0o777 == 0o600
    assert is_private(path)
    with pytest.raises(UsageError, match="there already"):
        make_key(path)
    assert read_key(path) == key


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "keyring", "é" * 64])
def test_a_file_that_gives_no_key_is_named(tmp_path, text):
    path = tmp_path / "cache.key"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"cache\.key"):
        read_key(path)


class Memory(KeyringBackend):
    """A keyring as `keyring` lets anyone add one."""

    priority = 1

    def __init__(self):
        self.held = {}

    def get_password(self, service, username):
        return self.held.get((service, username))

    def set_password(self, service, username, password):
        self.held[service, username] = password

    def delete_password(self, service, username):
        if self.held.pop((service, username), None) is None:
            raise PasswordDeleteError(username)


def test_the_keyring_holds_the_key_and_the_file_its_name(tmp_path):
    before = keyring.get_keyring()
    keyring.set_keyring(Memory())
    try:
        path = tmp_path / "cache.key"
        key = make_key(path, keyring=True)
        assert read_key(path) == key
        assert where_kept(path) == "keyring"
        assert key.hex() not in path.read_text()
        keyring.set_keyring(Memory())
        with pytest.raises(UsageError, match="holds no"):
            read_key(path)
    finally:
        keyring.set_keyring(before)


def test_without_a_keyring_the_user_is_told(tmp_path):
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())
    try:
        with pytest.raises(UsageError, match="key file instead"):
            make_key(tmp_path / "cache.key", keyring=True)
        assert not (tmp_path / "cache.key").exists()
    finally:
        keyring.set_keyring(before)
