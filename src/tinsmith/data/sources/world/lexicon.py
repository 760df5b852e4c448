"""General words of synthetic papers, and invented words of their topics.

The language is the same in every world; a seed changes its use. It has no digits, and no word that names a label.
"""

from __future__ import annotations

from typing import Final

from tinsmith.data.sources.world.spec import MAX_TOPICS

_GENERAL: Final = """
    the of and in to a for with on that is by are from as we this at be an which these have
    between was were it can using results study has their our not also more than two data both
    analysis or show such effect model based high different been may used method under over
    time its during however while found significant only paper present through low most other
    new but here system potential process increased all important observed well three
    associated into effects higher related compared first information one several large
    research within many approach among methods when studies there use proposed levels no
    various due function role after against problem some changes response rate performance
    structure small current they field work case test control type condition level properties
    range values possible evidence factors influence activity development quality given long
    general form order local value increase across measured population group specific obtained
    developed suggest number further conditions complex evaluated recent lower design strong
    patterns set dynamic reported dependent including multiple because simple distribution
    functions terms mean early same four sample would could theory years experimental
    relationship provide direct surface effective growth mechanism good overall strategy
    differences risk production rates initial scale real made each shown future processes key
    better main basis presence similar available need numerical positive negative support
    ability estimate parameters stable total useful limited often much behaviour global applied
    average single source space environment relative interaction demonstrated way impact common
    estimated known likely degree characteristic respectively thus natural consider
    investigated significantly compare relevant linear reduced improve term experience area
    practice comparison finally previous moreover respect discussed standard whether without
    allows identified require means state contrast addition less best every clear resulting
    presented since still very being part where those how what who like so if any up out about
    then before even open weak deep broad narrow steady rapid slow exact rough partial joint
    whole
"""
GENERAL: Final = tuple(_GENERAL.split())
"""General words, most frequent first, used by Zipf's law."""

_PREFIXES: Final = """
    photo electro thermo nano micro macro bio geo hydro neuro astro cyto poly iso hetero homo
    meta para proto pseudo super ultra inter trans auto litho
"""
_ROOTS: Final = """
    lumin kinet morph gen graph chrom phon magnet mechan metr plasm therm troph phyl lys path
    tax ton cardi derm oste vascul glob crystal fract vari tens kern vect spher cycl fluor
    carbon nitr sulf stat
"""
_ENDINGS: Final = """
    ics ation ism osis ity ance ology ides ines ates ium oids ors omers
"""
_PARTS: Final = tuple(tuple(text.split()) for text in (_PREFIXES, _ROOTS, _ENDINGS))
_STRIDE: Final = 7919
"""Step coprime to the number of invented words: it visits all of them, with unlike neighbours."""

TOPIC_WORDS: Final = 10


def topic_words(field: int, topic: int) -> tuple[str, ...]:
    """Return the TOPIC_WORDS invented words of a topic; no other topic has them.

    >>> topic_words(0, 0)[:3]
    ('photoluminics', 'homovariates', 'macropathity')
    """
    start = (field * MAX_TOPICS + topic) * TOPIC_WORDS
    return tuple(_invented(index) for index in range(start, start + TOPIC_WORDS))


def _invented(index: int) -> str:
    prefixes, roots, endings = _PARTS
    code = index * _STRIDE % (len(prefixes) * len(roots) * len(endings))
    code, ending = divmod(code, len(endings))
    prefix, root = divmod(code, len(roots))
    return prefixes[prefix] + roots[root] + endings[ending]
