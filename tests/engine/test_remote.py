"""A header read from a hub by range request; the hub is a small server here."""

import contextlib
import http.server
import threading

import pytest
from ragq.engine.gguf import read_gguf
from ragq.engine.models import hub_place, model_path
from ragq.engine.remote import remote_gguf
from ragq.errors import MissingError, ModelError, UsageError


@pytest.fixture
def hub(models_dir, monkeypatch):
    """Serves the small model as org/model:m.gguf, twenty megabytes of nothing as null.gguf; `ranges` at its word."""
    model = model_path("smollm2-135m", models_dir).read_bytes()[: 8 << 20]
    files = {"/org/model/resolve/main/m.gguf": model, "/org/model/resolve/main/null.gguf": bytes(20 << 20)}
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        ranges = True

        def do_GET(self):
            data = files.get(self.path)
            asked.append(self.headers["Range"])
            if data is None:
                self.send_error(404)
                return
            size = len(data)
            if self.ranges:
                data = data[: int(self.headers["Range"].rpartition("-")[2]) + 1]
            self.send_response(206 if self.ranges else 200)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Range", f"bytes 0-{len(data) - 1}/{whole.get(self.path, size)}")
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the client leaves when it has what it asked for
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    whole = {"/org/model/resolve/main/m.gguf": 98_362_432}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", place)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", place + "/{repo_id}/resolve/{revision}/{filename}")
    yield asked, Handler
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("ranges", [True, False])
def test_the_header_alone_is_fetched(hub, models_dir, monkeypatch, ranges):
    asked, handler = hub
    handler.ranges = ranges
    monkeypatch.setattr("ragq.engine.remote.FIRST", 1 << 20)
    found = remote_gguf("org/model", "m.gguf")
    assert found == read_gguf(model_path("smollm2-135m", models_dir))
    assert asked[0] == "bytes=0-1048575"
    assert len(asked) == 2


def test_what_is_no_model_or_not_there_is_refused(hub):
    with pytest.raises(ModelError, match=r"org/model:null\.gguf"):
        remote_gguf("org/model", "null.gguf")
    with pytest.raises(MissingError, match="HTTP 404"):
        remote_gguf("org/model", "none.gguf")


def test_a_hub_out_of_reach_is_told(hub, monkeypatch):
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}")
    with pytest.raises(MissingError, match="could not read the header"):
        remote_gguf("org/model", "m.gguf")


def test_where_a_model_lies_on_the_hub():
    assert hub_place("org/model:sub/m.gguf") == ("org/model", "sub/m.gguf", "main")
    assert hub_place("qwen2.5-coder-0.5b")[0] == "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
    for name in ("org/model", "minilm-l6", "nonsense"):
        with pytest.raises(UsageError, match="expected a hub id"):
            hub_place(name)
