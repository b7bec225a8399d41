"""Cues: the words, in English and Spanish, by which a question says what it asks for. Matched on folded text."""

from __future__ import annotations

import re
from typing import Literal

Intent = Literal[
    "interaction", "status", "stopped", "held", "started", "dose", "lab", "trend", "allergy", "safety",
    "medications", "conditions", "when", "why", "highest", "lowest",
]  # fmt: skip

_CUES: dict[Intent, str] = {
    "interaction": r"dangerous peligros[oa] interact\w* interacci\w+ interactu\w+ combin\w+ together coadminist\w+ juntos junto",
    "status": r"still current(?:ly)? now being\s+(?:taken|given|used) taken tomado status taking takes? on active receiving using uses?"
    r" sigue siguen toma tomaba tomar tomando running ongoing continu\w* actual\w* recibe activ[oa] usa",
    "stopped": r"stop(?:ped)? discontinued suspend\w+ withdrawn retirad\w+ off",
    "held": r"held hold paused pausa pausad\w+",
    "started": r"start(?:ed)? begun began inici\w+ empez\w+ comenz\w+",
    "dose": r"dos(?:e|es|age|is) dosificaci\w+ how\s+much cuanto cuanta strength",
    "allergy": r"allerg\w* alergi\w*",
    "safety": r"reasons?\s+not\s+to\s+(?:give|use|start|prescribe) ok okay"
    r" should\s+(?:i|we)\s+(?:add|give|prescribe|start|use)"
    r" allowed safe(?:ly)? can could may give given giving add adding prescrib\w+ avoid\w* contraindicat\w+"
    r" puede\w* puedo dar darle anadir permitid\w+ segur[oa] contraindicad\w+ recetar",
    "medications": r"what\s+(?:do|does)\s+(?:he|she|they|(?:the|this)\s+patient)\s+(?:(?:currently|now|still)\s+)?(?:take|use)"
    r" what\s+(?:is|are)\s+(?:he|she|they|the\s+patient)\s+(?:taking|on) que\s+(?:esta\s+tomando|toma)"
    r" medication\w* medicine\w* meds tablets pills drugs?"
    r" comprimidos pastillas medicaci\w+ medicamento\w* medicina\w* farmaco\w* tratamiento prescri\w+",
    "conditions": r"problem\w* diagnos\w+ condition\w* diagnostic\w+ problema\w* enfermedad\w* comorbid\w+",
    "trend": r"going\s+(?:up|down)(?:\s+or\s+(?:up|down))? rising falling trend over\s+time evoluci\w+ tendencia history\s+of\s+results"
    r" changes? changed cambiado values valores",
    "highest": r"highest maximum max peak greatest mayor maxim[oa] alt[oa]",
    "lowest": r"lowest minimum min nadir smallest menor minim[oa] baj[oa]",
    "when": r"when since cuando desde date fecha diagnosed onset",
    "why": r"why reason what\s+(?:made|caused) por\s+que motivo razon",
}
PATTERNS = {intent: re.compile(rf"\b(?:{'|'.join(cues.split(' '))})\b") for intent, cues in _CUES.items()}

# Headings of a drug's page, on folded text, under which what is asked for stands.
HEADINGS: dict[Intent, re.Pattern[str]] = {
    "dose": re.compile(r"\b(?:dos(?:e|es|ing|age|is)|posolog\w+|dosificaci\w+)\b"),
    "stopped": re.compile(r"\b(?:contraindica\w+|precauti\w+|warnings?|precaucion\w*|advertencias?)\b"),
    "safety": re.compile(r"\b(?:contraindica\w+|precauti\w+|warnings?|precaucion\w*|advertencias?)\b"),
}

# Of a drug this asks for the dose; of a lab (`how much does he weigh?`) for the result.
HOW_MUCH = re.compile(r"\b(?:how\s+much|cuant[oa])\b")

# Asking leave for a drug.
MODAL = re.compile(
    r"\b(?:can|could|may|might|should|safe|ok|okay|allowed|contraindicated|puede|podria|puedo|podemos|debe|deberia|segur[oa])\b"
)

# Words that ask for nothing besides what the rest of the question asks for.
FILLER = re.compile(
    r"\b(?:at the moment|right now|at present|these days|nowadays|en este momento|ahora mismo|hoy en dia"
    r"|most recent(?:ly)?|(?:on|at) discharge|al alta|known|conocid[oa]s?|(?:ever )?recorded|on record|anything|something|algo|between|entre"
    r"|(?:on |el )?(?:the )?(?:day|dia)(?: (?:of|that|de|que))?)\b"
)

# A question for yes or no begins so …
POLAR = re.compile(
    r"\W*(?:(?:the|el|la|este|esta|su)\s+(?:patient|paciente)\s+)?(?:is|are|was|were|does|do|did|has|have|still|on|taking|any"
    r"|can|sigue|toma|tomaba|tomo|esta|estan|tiene|tuvo|ha|hay|recibe|continua|es|se|usa|allergic\w*|alergic\w*)\b"
)
# … and has none of these.
OPEN = re.compile(
    r"\b(?:status|estado|what|which|why|when|how|who|que dosis|cual|cuando|cuanto|por que|desde cuando)\b"
)

# What holds for anybody, and what is about this patient.
GENERAL = re.compile(
    r"\b(?:maximum|max|target|criteria|criterion|how often|how long|monitor\w*|guidelines?|recommend\w*|usual(?:ly)?"
    r"|should(?! (?:i|we) (?:add|give|prescribe|start|use)\b)|must"
    r"|at what|what to do|first.line|first choice|antidote|reversal|reverse|mechanism|side effects?|adverse|what is the dose|in renal"
    r"|in pregnancy|maxim[oa]|objetivo|criterios?|cada cuanto|recomend\w+|debe\w*|vigilar|control(?:ar)?|que hacer"
    r"|efectos? (?:secundarios?|adversos?)|guias?|antidoto)\b"
)
# An event or a person: what only the record can tell of a patient.
HAPPENED = re.compile(
    r"\W*(?:when (?:was|were|did|is)|why (?:was|were|did)|how many times|has|have|had|did|was|were|who|any|cuando|cuantas veces|por que se|ha|tuvo"
    r"|quien)\b"
)
# What a drug did to the patient.
REACTION = re.compile(r"\b(?:reaction|reacted|side effects? (?:did|has|had)|reaccion(?:es)?|reacciono)\b")
# A patient by number: `patient 4`, `paciente n.º 12`; not `patient 80 years old`.
NUMBERED = re.compile(
    r"\b(?:patients?|pacientes?|pt)\b\.?\s*(?:(?:no|number|numero|num|nr|n|id)\b[.o]*\s*|#\s*)?(?P<id>[a-z]{0,4}-?\d[\w-]*)\b"
    r"(?!\s*(?:(?:years?|yrs?|days?|weeks?|months?|hours?|times?|mg|mcg|g|ml|kg|units?|tablets?|doses|anos?|dias?|semanas?|meses|horas?"
    r"|veces)\b|%|[.,:/]\d))"
)
# Who did or said it, which stands in a note's dateline.
PERSON = re.compile(r"\b(?:who|whose|whom|quien(?:es)?)\b")
# The time at which the patient is to be seen or tested again, as a question and as a note have it.
NEXT = re.compile(
    r"\b(?:next|pr[oó]xim[oa]s?|follow[- ]?up|seguimiento|recall|appointment|appts?|cita|due|review(?:ed)?\s+(?:in|on|at|again)"
    r"|(?:see|seen|check)\s+again)\b",
    re.IGNORECASE,
)
PERSONAL = re.compile(
    r"\b(?:her|his|she|he|hers|patient'?s?|mr|mrs|ms|paciente|su|sus|toma|tomaba|tiene|ella|el paciente|la paciente)\b"
)
