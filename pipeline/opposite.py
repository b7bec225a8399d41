"""Opposite: a claim whose relation its own lines deny: `lives with` out of `lives alone`, `has` out of `denies`, `takes` out of
`stopped`. Words alone do not tell: every one of the claim stands in the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.pipeline.said import State, sayings
from ragq.pipeline.words import content, stems

_I = re.IGNORECASE
_SELF = r"(?:alone|by\s+(?:him|her|them)sel\w+|on\s+(?:his|her|their)\s+own)"
# Relations with their opposites: what states the one does not state the other, and neither follows from other words.
_PAIRS = (
    (
        re.compile(
            r"\b(?:li(?:ves?|ving)|resid\w+|stay(?:s|ing)|shares?)\b(?:[\s:]+[\w-]+){0,6}?[\s:]+(?:with\b|w/)|\b(?:at\s+)?home\s+with\b"
            r"|\bviv(?:e|en|iendo)\b(?:\s+\w+){0,4}?\s+con\b|\bconvive\b",
            _I,
        ),
        re.compile(
            rf"\b(?:li(?:ves?|ving)|resid\w+|stay(?:s|ing)|home)\b(?:[\s:]+[\w-]+){{0,6}}?[\s:]+{_SELF}|\bviv(?:e|iendo)(?:\s+\w+){{0,3}}?\s+sol[oa]\b",
            _I,
        ),
    ),
    (
        re.compile(
            r"(?<!not )\b(?:fully\s+)?independent(?:ly)?\b|\bself-?\s?car(?:ing|es)|\bunaided\b"
            r"|\b(?:needs?|requires?|has)\s+no\s+(?:help|assistance|carers?|care)\b"
            rf"|\bwithout\s+(?:any\s+)?(?:help|assistance|aids?)\b|\bmanages\b[^.;,]*{_SELF}|\bno\s+(?:help|carers?|package\s+of\s+care)\b"
            r"|\bindependiente\b|\baut[oó]nom[oa]\b|\bsin\s+ayuda\b",
            _I,
        ),
        re.compile(
            r"\bdependent\s+(?:on|for)\b|\bnot\s+independent\b"
            r"|\b(?:needs?|needing|requires?|requiring|gets?|has)\s+(?:\w+\s+){0,3}?(?:help|assistance|carers?|supervision|prompting)\b"
            r"|(?<!out )\bwith\s+(?:the\s+|some\s+|much\s+)?(?:help|assistance)\b|\bassisted\b|\bassistance\s+of\b"
            r"|\bhelps?\s+(?:her|him|them|with)\b|\bcarers?\s+(?:\w+\s+){0,3}?(?:daily|a\s+day)"
            r"|(?<!in)\bdependiente\b|\b(?:necesita|precisa|requiere)\s+(?:\w+\s+)?ayuda\b|\bcon\s+ayuda\b",
            _I,
        ),
    ),
    (
        re.compile(
            r"\bsmokes\b|(?<!non-)(?<!non )(?<!ex-)(?<!ex )(?<!former )(?<!never )\bsmoker\b"
            r"|\bstill\s+smok\w+|\bis\s+smoking\b|\bfuma\b|(?<!no )(?<!ex)\bfumador[a]?\b",
            _I,
        ),
        re.compile(
            r"\b(?:non|ex|former|never)[- ]?smok\w+|\bnever\s+(?:has\s+)?smoked\b"
            r"|\b(?:stopped|quit|gave\s+up|given\s+up)\s+(?:the\s+)?(?:smoking|cigarettes|tobacco)\b"
            r"|\b(?:has\s+not|hasn['’]t|not)\s+smoked\b"
            r"|\b(?:does\s+not|doesn't|no\s+longer)\s+smok\w+|\bex-?fumador[a]?\b|\b(?:no|ya\s+no|nunca)\s+(?:ha\s+)?fuma(?:do|ba)?\b|\bdej[oó]\s+de\s+fumar\b",
            _I,
        ),
    ),
    (
        re.compile(r"\bdrinks\b|\bis\s+drinking\b|\bbebe(?:dor[a]?)?\b", _I),
        re.compile(
            r"\bteetotal\w*|\babst(?:ain|emi)\w*|\b(?:no|never|without)\s+(?:any\s+)?alcohol\b|\b(?:does\s+not|doesn't|no\s+longer|never)\s+dr[ia]nk\w*|\bno\s+bebe\b",
            _I,
        ),
    ),
    (
        re.compile(r"\bimprov\w+|\bbetter\b|\bresolved\b|\bsettled\b|\bmejor\w*", _I),
        re.compile(r"\bwors\w+|\bdeteriorat\w+|\bpeor\w*|\bempeor\w*", _I),
    ),
    (re.compile(r"\bpositiv[eoa]\b", _I), re.compile(r"\bnegativ[eoa]\b", _I)),
)
# What is told of the present, what else tells it of the present, and what of the past.
_LASTING = {
    "lives": ("living|live|resides", "lived"),
    "works": ("working|work", "worked|retired"),
    "drives": ("driving|drive|driver", "drove"),
    "smokes": ("smoking|smoker", "smoked"),
    "drinks": ("drinking|drinker", "drank"),
    "walks": ("walking|walk", "walked"),
    "vive": ("vivo|viviendo", "viv[ií]a|vivi[oó]"),
    "trabaja": ("trabajo|trabajando", "trabajaba|trabaj[oó]|jubilad[oa]"),
    "conduce": ("conduciendo", "conduc[ií]a|condujo"),
    "fuma": ("fumador|fumadora|fumando", "fumaba|fum[oó]"),
}
_CLAUSE = re.compile(
    r"(?<=[.;:!?])\s+|\n+|,\s+|\s+(?:but|pero|although|though|aunque|however|while|whereas|mientras)\s+", _I
)
_STATEMENT = re.compile(r"(?<=[.;!?])\s+|\n+|\s+(?:but|pero|although|though|aunque|however|except|salvo)\s+", _I)
_DENIES = r"den(?:y|ies|ied|ying)|niega|neg[oó]"
_ENDS = r"no\s+longer|ya\s+no|stopped|gave\s+up|given\s+up|quit|ceased|dej[oó]\s+de|dejado\s+de"
_NEGATOR = re.compile(
    rf"\b(?:(?P<deny>{_DENIES})|(?P<end>{_ENDS})|no(?!\s*[,:.;])|not|never|nil|without|neither|nor|cannot|(?:is|was|does|did|has|have|had|do|are|were|ca|could|wo)n['’]t"
    r"|negative\s+for|free\s+of|absence\s+of|rul(?:ed|es)\s+out|sin|nunca|ni|tampoco|descarta(?:d[oa])?)\b",
    _I,
)
# What stands before these is denied.
_DENIED_BEFORE = re.compile(
    r"[^.;,]*?\b(?:absent|none|denied|excluded|ruled\s+out|not\s+(?:seen|found|present|detected)|ausentes?|descartad[oa]s?)\b",
    _I,
)
_SCOPE_END = re.compile(
    r"[,:()]|\b(?:on|in|at|for|since|with|from|after|before|during|when|while|because|if|as|than|until|by|who|which|that"
    r"|en|para|desde|con|tras|durante|cuando|mientras|porque|hasta|que)\b",
    _I,
)
_OR = re.compile(r"\b(?:or|nor|o|ni)\b", _I)
_FORMER = re.compile(r"\b(?:until|used\s+to|former\w*|ex|past|previously|hasta|antes)\b", _I)


def opposed(sentence: str, lines: Sequence[str], own: Sequence[str], lexicon: Lexicon) -> str:
    """Why the cited lines deny what the sentence says, or nothing; `own` are those of them from the patient's documents."""
    text = "\n".join(lines)
    return (
        _opposite_relation(sentence, text)
        or _no_longer(sentence, text)
        or _denied(sentence, text, lexicon)
        or _drug_otherwise(sentence, own, lexicon)
    )


def _opposite_relation(sentence: str, text: str) -> str:
    """A relation that no clause states, or that the clause nearest to the sentence states the other way round."""
    parts = [c for c in _CLAUSE.split(text) if c.strip()]
    for one, other in (*_PAIRS, *(pair[::-1] for pair in _PAIRS)):
        found = one.search(sentence)
        if not found or other.search(sentence):
            continue
        words = content(one.sub(" ", sentence))
        stating = [bool(one.search(c)) - bool(other.search(c)) for c in parts]
        if all(s <= 0 for s in stating):
            return f"{found.group()!r} is not said in the cited evidence"
        told = [(len(words & stems(c)), s) for c, s in zip(parts, stating, strict=True) if s]
        if max(told)[1] < 0:
            return f"the cited evidence says the opposite of {found.group()!r}"
    return ""


def _no_longer(sentence: str, text: str) -> str:
    """A state told of the present that the lines tell of the past alone."""
    for now, (lasting, past) in _LASTING.items():
        said = re.search(rf"\b(?:{past})\b", text, _I)
        if said and re.search(rf"\b{now}\b", sentence, _I) and not re.search(rf"\b(?:{now}|{lasting})\b", text, _I):
            return f"the cited evidence says {said.group()!r}"
    return ""


def _denied(sentence: str, text: str, lexicon: Lexicon) -> str:
    """A word that the sentence affirms and every clause of the lines with it denies, or the other way round."""
    claimed, told = _polarity(sentence, lexicon), _polarity(text, lexicon)
    for affirmed, word in sorted((a, w) for w, a in claimed):
        said = {a for w, a in told if w == word}
        if said == {not affirmed} and (word, not affirmed) not in claimed:
            former = affirmed and _FORMER.search(sentence) and re.search(rf"\b(?:{_ENDS})\b", text, _I)
            if not former:
                return f"the cited evidence {'denies' if affirmed else 'does not deny'} {word!r}"
    return ""


def affirms_denied(question: str, line: str, lexicon: Lexicon) -> bool:
    """Whether a line affirms, and nowhere denies, a word that the question denies: `major bleeding` of `without bleeding`."""
    denied = {word for word, affirmed in _polarity(question, lexicon) if not affirmed}
    told = _polarity(line, lexicon) if denied else set()
    return any((word, True) in told and (word, False) not in told for word in denied)


def _polarity(text: str, lexicon: Lexicon) -> set[tuple[str, bool]]:
    """Stems of the words of a text, drugs, numbers and dates aside, each with whether it is affirmed (True) or denied (False)."""
    plain = list(text)
    for s in protected(text, lexicon):
        if s.kind in ("drug", "class", "number", "date", "frequency"):
            plain[s.start : s.end] = " " * (s.end - s.start)
    out: set[tuple[str, bool]] = set()
    for statement in _STATEMENT.split("".join(plain)):
        scopes = [_scope(statement, m) for m in _NEGATOR.finditer(statement)]
        scopes += [m.span() for m in _DENIED_BEFORE.finditer(statement)]
        for word in re.finditer(r"[^\W_]+", statement):
            meant = content(word.group())
            denied = any(a <= word.start() < b for a, b in scopes)
            out |= {(w, not denied) for w in meant if not _NEGATOR.fullmatch(word.group())}
    return out


def _scope(statement: str, negator: re.Match[str]) -> tuple[int, int]:
    """The characters that a negation denies: up to a preposition or comma; a list of things denied to its end."""
    start = negator.end()
    for end in _SCOPE_END.finditer(statement, start):
        if end.group() == "," and (negator["deny"] or _OR.search(statement, end.end())):
            continue
        return start, end.start()
    return start, len(statement)


def _drug_otherwise(sentence: str, own: Sequence[str], lexicon: Lexicon) -> str:
    """A drug that the sentence says is taken (ended) and the patient's lines say is not (say is taken)."""
    told: dict[str, set[State]] = {}
    for line in own:
        for saying in sayings(line, lexicon):
            told.setdefault(saying.drug, set()).add(saying.state)
    for saying in sayings(sentence, lexicon):
        states = told.get(saying.drug, set())
        taken_of_none = saying.state == "taken" and states and states <= {"ended", "not", "other"}
        ended_of_taken = saying.state == "ended" and states and states <= {"taken"}
        if taken_of_none or ended_of_taken:
            return f"the cited evidence says of {saying.drug} that it is {', '.join(sorted(states))}"
    return ""
