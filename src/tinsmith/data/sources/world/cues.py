"""Cue phrases of abstracts: hints at the cause of a synthetic paper's citations.

The wording follows what a disruption index means, so that a reader who knows that has a prior. No phrase
contains a label's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.data.sources.world.spec import Cause

_CUES: Final[Mapping[Cause, str]] = {
    Cause.PIONEER: """
        we introduce a new class of
        we report the first demonstration of
        this replaces earlier accounts of
        for the first time we show
        we propose a fundamentally different view of
        this opens a new line of work on
        earlier explanations are no longer needed for
        we discover an unexpected form of
        contrary to accepted theory we find
        we overturn the standard picture of
        we put forward a new paradigm for
        without relying on prior approaches we obtain
        no existing framework explains
        we invent a new instrument for
        we identify a previously unknown kind of
        this makes older techniques obsolete for
        we break with the established treatment of
        we offer a radical alternative to
        here is the first evidence of
        this founds a new field around
        this challenges a long held assumption about
        this is a new starting point for
        we uncover an entirely new mechanism for
        we abandon the usual assumptions about
        unlike anything reported before
        later work can start directly from
        this discovery redefines
        this breakthrough concerns
        this displaces the prevailing explanation of
        we create a new language for""",
    Cause.DEVELOPER: """
        we extend earlier work on
        building on previous results we study
        we benchmark existing approaches to
        this is a systematic review of
        we refine the established model of
        this confirms previous findings on
        we improve the accuracy of
        we generalise a known result on
        consistent with prior studies we see
        we combine two established techniques for
        this meta analysis covers
        we replicate and extend
        we give an improved version of
        we optimise the standard procedure for
        following the framework of earlier authors we treat
        we synthesise the literature on
        this strengthens the evidence for
        we make a comprehensive comparison of
        we achieve incremental gains in
        we adapt a well known method to
        we validate the accepted model of
        this further develops
        we bring together what is known about
        as in the works we build upon
        we revisit a classical question of
        in line with the prevailing theory
        we apply the established approach to
        this lends additional support to
        we scale up a known protocol for
        we unify earlier accounts of""",
    Cause.ROUTINE: """
        we report a case of
        this is a survey of local
        this is a short note on
        we describe a sample of
        these are preliminary observations on
        we list the properties of
        we give a descriptive account of
        this is the annual report on
        we document the occurrence of
        we made routine measurements of
        this is a small pilot study of
        this brief communication concerns
        we present regional data on
        we summarise the activities of
        participants filled in a questionnaire about
        these technical notes concern
        we compiled an inventory of
        we record the conditions of
        this is an overview of practice in
        we share a single centre experience with
        these are field notes on
        this commentary concerns
        a workshop was held on
        we tabulate values for
        this is a catalogue of
        this is a status report on
        observations from one site concern
        this is an internal evaluation of
        data were collected over several months on
        this is a letter about""",
}

CUES: Final[Mapping[Cause, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {cause: tuple(tuple(line.split()) for line in text.strip().splitlines()) for cause, text in _CUES.items()}
)
"""Phrases that begin a sentence, by the cause that prefers them; equally many for each."""
