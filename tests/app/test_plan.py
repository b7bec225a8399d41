"""`ragq plan` and `ragq models optimise` as a person runs them."""

import json

MACHINE = "bandwidth=2e10,flops=2e11,memory_bytes=16e9"


def test_a_plan_for_another_machine_runs_nothing(ragq, empty_home, tmp_path):
    drawing = tmp_path / "roof.svg"
    done = ragq(
        empty_home, "plan", "smollm2-135m", "--machine", MACHINE, "--ctx", "2048", "--json", "--plot", str(drawing)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model"]["params"] == 134_515_008
    assert found["machine"]["flops"] == 2e11
    assert found["decode"]["ceiling_tok_s"] > found["decode"]["at_context_tok_s"]
    assert drawing.read_text().startswith("<svg")
    assert not (empty_home / "cache" / "machine.json").exists()
    text = ragq(empty_home, "plan", "smollm2-135m", "--machine", MACHINE).stdout
    assert "decode" in text
    assert "Q4_1 79%" in text


def test_a_plan_says_what_is_wrong(ragq, empty_home, tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(60))
    for arguments, code, reason in (
        (["smollm2-135m", "--plot", "x.png", "--machine", MACHINE], 2, "ends in .svg"),
        (["smollm2-135m", "--machine", "bandwidth=1"], 2, "flops"),
        (["qwen2.5-1.5b-instruct"], 4, "--remote"),
        ([str(bad)], 1, "not a sound GGUF"),
        (["minilm-l6"], 2, "is a folder"),
    ):
        done = ragq(empty_home, "plan", *arguments)
        assert done.returncode == code, done.stderr
        assert reason in done.stderr


def test_speculate_must_be_one_of_its_ways(ragq, empty_home):
    done = ragq(empty_home, "ask", "INR?", "--speculate", "maybe")
    assert done.returncode == 2
    assert "--speculate" in done.stderr
