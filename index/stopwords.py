"""Stopwords: words of English and Spanish that carry no content of their own, as BM25 tokens.

For judging what a question or a sentence is about; BM25 itself indexes them, and looks for them.
"""

from __future__ import annotations

from ragq.index.tokenizer import tokenize

FUNCTION_WORDS = frozenset(
    tokenize(
        """
    a an the this that these those it its is are was were be been being do does did has have had may can could
    should would must might shall will he she they him her his hers their them you your me my we our of in on at to for with and
    or by from about as into than then also there here what which who whom whose where when why how many much
    any some please patient patients record records el la los las un una unos unas lo le les este esta esto esos
    esas ese esa es son era eran fue fueron ser estar está están estuvo ha han hay hubo haber tiene tienen tuvo
    que qué cual cuál cuales cuáles quien quién quienes como cómo cuanto cuánto cuanta cuánta cuantos cuántos
    cuantas cuántas donde dónde cuando cuándo por para con sin de del en al a y e o u se su sus más mas puede
    pueden paciente pacientes historia alguna alguno algún algunas ninguna ninguno ningún mr mrs ms dr señor
    señora sr sra ahora
    """
    )
)

# Words that a question for a value, a list or a date may add without asking for anything more.
ASKING_WORDS = FUNCTION_WORDS | frozenset(
    tokenize(
        """
    ever day daily día tell list show give get got last latest most recent recently newest value result results level levels
    current currently today now happened happen status new último última últimos últimas reciente valor resultado
    resultados nivel niveles estado actual actualmente hoy dime muestra
    """
    )
)
