"""Record what the unpatched llmlingua 0.2.2 gives, for `test_lingua.py`. Run it with that package on the transformers
it was written for (4.46.3, with tokenizers 0.20.3), in an environment of its own:

    python tests/compress/record_lingua.py VOCABULARY [MODEL]

VOCABULARY is the tokenizer.json of minilm-l6, MODEL the folder of a real causal model. Only what it would download is
stood in for: tiktoken's tables by the model's tokenizer, nltk's by the sentence splitter of `ragq.compress.lingua`.
"""

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import nltk
import tiktoken
from llmlingua import PromptCompressor
from ragq.compress.lingua import FORCED, LONG, split_sentences

sys.path.insert(0, str(Path(__file__).parent))
from tiny_lingua import CONTEXTS, QUESTION, RUNS, causal, classifier


def opened(folder, **options):
    tiktoken.encoding_for_model = lambda _: SimpleNamespace(encode=None)
    nltk.sent_tokenize = split_sentences
    made = PromptCompressor(str(folder), device_map="cpu", model_config={"trust_remote_code": False}, **options)
    made.oai_tokenizer = SimpleNamespace(encode=lambda t: made.tokenizer(t, add_special_tokens=False).input_ids)
    return made


def target(package, rate):
    return max(1, int(rate * sum(package.get_token_length(c, add_special_tokens=False) for c in CONTEXTS)))


def run(package, asked, rate, options):
    given = dict(LONG) if asked else {}
    given |= {"question": QUESTION if asked else "", "concate_question": False, "target_token": target(package, rate)}
    return package.compress_prompt(list(CONTEXTS), **(given | options))["compressed_prompt"]


def main():
    out = Path(__file__).parent / "lingua_reference.json"
    found = json.loads(out.read_text()) if out.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        tiny = opened(causal(Path(folder) / "causal"))
        found["tiny"] = {name: run(tiny, asked, rate, options) for name, asked, rate, options in RUNS}
        second = opened(classifier(Path(folder), Path(sys.argv[1])), use_llmlingua2=True)
        found["classifier"] = second.compress_prompt(
            list(CONTEXTS), target_token=target(second, 0.5), force_tokens=FORCED, force_reserve_digit=True
        )["compressed_prompt"]
    if len(sys.argv) > 2:
        real = opened(sys.argv[2])
        found["smollm2"] = {name: run(real, asked, rate, options) for name, asked, rate, options in RUNS}
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


main()
