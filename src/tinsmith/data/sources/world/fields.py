"""Fields of science of a synthetic world: names, words, topics and journals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIELD_WORDS: Final = 30

_FIELDS: Final[Mapping[str, str]] = {
    "Medicine": """
        patients treatment clinical disease therapy diagnosis symptoms surgery mortality cohort
        hospital tumour chronic infection dose outcomes trial blood cardiac screening acute lesions
        remission biopsy prognosis renal vascular hypertension survival recovery""",
    "Materials Science": """
        alloy film coating microstructure hardness polymer ceramic composite grain fracture
        annealing lattice fatigue deposition porosity substrate ductile corrosion nanotube
        sintering fibre glass phase strain crack thermal oxide layer graphene powder""",
    "Computer Science": """
        algorithm network software classifier graph training database query protocol compiler
        accuracy architecture embedding cache parallel latency dataset scheduling encryption
        features memory language optimisation neural search cloud robot inference interface
        recognition""",
    "Physics": """
        quantum particle energy photon spin symmetry field plasma laser scattering boson magnetic
        entanglement coupling lattice collision decay vacuum momentum superconductor wave
        relativity condensate neutrino gauge tunnelling resonance detector electron cavity""",
    "Biology": """
        gene protein cell species genome expression mutation enzyme evolution tissue bacteria
        pathway membrane receptor transcription embryo plant metabolism chromosome phenotype
        habitat larvae signalling replication symbiosis clone stem organism selection sequence""",
    "Chemistry": """
        synthesis catalyst ligand reaction solvent oxidation molecule bond complex polymerisation
        selectivity yield spectroscopy hydrogen carbon compound acid electrode isomer radical
        crystal adsorption reagent kinetics aromatic metal hydrolysis substituent chiral solution""",
    "Engineering": """
        load sensor controller turbine vibration actuator fluid stress beam simulation bridge
        concrete torque bearing circuit antenna pressure flow heat fault machining pump motor
        stiffness damping welding valve converter hydraulic prototype""",
    "Psychology": """
        memory attention anxiety emotion behaviour personality stress perception participants
        children cognitive depression motivation self therapy attachment wellbeing bias stimulus
        identity trauma reward coping questionnaire empathy habit impulse mood adolescents
        resilience""",
    "Economics": """
        market price income policy trade growth inflation wage investment demand tax capital
        firm bank household productivity equilibrium labour unemployment auction inequality risk
        export monetary consumption welfare supply credit incentive forecast""",
    "Sociology": """
        community gender class inequality migration identity family youth religion mobility race
        institution movement norm neighbourhood poverty culture kinship elites discourse stigma
        household solidarity ethnicity trust violence participation urban narrative power""",
    "Geology": """
        sediment basin fault mantle rock volcanic tectonic mineral strata seismic crust
        groundwater glacier magma isotope limestone erosion fossil aquifer subduction basalt
        earthquake quartz sandstone plateau metamorphic uplift landslide delta zircon""",
    "Mathematics": """
        theorem operator manifold equation algebra convergence polynomial proof boundary
        inequality spectrum kernel lattice topology semigroup cohomology integral conjecture
        symmetric bundle functional random ergodic curvature matrix ring prime embedding lemma
        homotopy""",
    "Neuroscience": """
        neuron cortex synapse hippocampus axon stimulation dopamine plasticity cerebellum glia
        oscillation imaging dendrite motor visual spike interneuron sleep seizure brainstem
        inhibition amygdala thalamus learning myelin retina potentiation auditory spinal lesion""",
    "Immunology": """
        antibody antigen vaccine lymphocyte cytokine macrophage inflammation receptor virus
        tolerance allergy serum immunity epitope transplant infection interferon autoimmune
        titre thymus neutrophil leukocyte immunisation pathogen adjuvant mast monocyte
        complement helper graft""",
    "Agriculture": """
        crop soil yield irrigation maize wheat livestock fertiliser harvest pest cattle seed
        grain nitrogen weed rice cultivar dairy pasture compost drought orchard poultry sowing
        forage tillage manure barley germination feed""",
    "Energy": """
        battery solar fuel turbine grid storage photovoltaic hydrogen biomass electrolyte combustion
        wind reactor charging emission efficiency renewable boiler microgrid lithium generator
        dispatch anode cathode geothermal insulation inverter biofuel pipeline gasification""",
    "Environmental Science": """
        pollution climate water ecosystem emission biodiversity river wetland aerosol ozone
        sediment carbon forest contamination rainfall wastewater conservation habitat lake ocean
        runoff toxicity recycling drought vegetation watershed nitrate plastic monitoring coral""",
    "Pharmacology": """
        drug dose receptor inhibitor toxicity agonist pharmacokinetic metabolite absorption
        compound potency formulation clearance antagonist bioavailability tablet placebo
        enzyme release plasma opioid antibiotic hepatic binding affinity analgesic extract
        tolerance titration excretion""",
    "Political Science": """
        election party voter democracy government parliament policy conflict state treaty
        coalition legislation regime protest diplomacy sovereignty reform campaign ideology
        bureaucracy security border constitution governance lobbying war referendum federal peace
        turnout""",
    "Education": """
        students teacher curriculum classroom school assessment learning literacy instruction
        feedback university skills pedagogy pupils exam tutoring reading mathematics course
        motivation inclusion homework lecture grades enrolment mentor training seminar
        attendance vocational""",
    "History": """
        empire century archive war medieval colonial monarchy revolution manuscript trade church
        nation peasant city labour treaty dynasty memory settlement letters reform slavery army
        migration merchants guild nobility crusade chronicle frontier""",
    "Linguistics": """
        syntax phonology verb speech vowel grammar dialect corpus semantics clause morphology
        language bilingual pronoun discourse noun lexical prosody speaker translation tense
        consonant idiom utterance accent acquisition register case argument metaphor""",
    "Astronomy": """
        galaxy star planet telescope supernova orbit redshift halo spectrum nebula dust pulsar
        accretion cosmology luminosity comet quasar asteroid disk merger dwarf flare radiation
        transit cluster photometry corona survey lensing exoplanet""",
    "Nursing": """
        nurse care ward caregiver patient staff hospital comfort intervention midwife bedside pain
        wound elderly shift discharge counselling burnout hygiene consent education palliative
        adherence nutrition handover infusion family empathy safety rehabilitation""",
    "Business": """
        firm customer brand strategy supply innovation leadership employee marketing retail
        venture contract logistics loyalty governance sales startup outsourcing merger revenue
        knowledge inventory stakeholder advertising franchise accounting audit pricing
        entrepreneur portfolio""",
    "Philosophy": """
        ethics knowledge reason belief truth moral mind logic freedom justice argument virtue
        meaning consciousness duty language causation identity scepticism metaphysics intuition
        paradox value autonomy realism phenomenology dialectic norm agency existence""",
}
_KINDS: Final = ("", "Applied ", "Theoretical ", "Comparative ")
_NAMES: Final = tuple(_FIELDS)

_JOURNALS: Final = (
    "Journal of {}",
    "{} Letters",
    "Annals of {}",
    "{} Research",
    "Reviews of {}",
    "Advances in {}",
    "{} Reports",
    "Archives of {}",
    "{} Communications",
    "International Journal of {}",
    "Transactions on {}",
    "Continental Journal of {}",
    "Current {}",
    "{} Bulletin",
    "Proceedings in {}",
    "{} Quarterly",
    "{} Notes",
    "Open {}",
    "Perspectives on {}",
    "Methods in {}",
)
FIELD_JOURNALS: Final = len(_JOURNALS)
GENERALIST_JOURNALS: Final = (
    "Annals of Discovery",
    "Open Science Reports",
    "The General Academy",
    "Universal Letters",
    "Research Without Borders",
)


def field_name(field: int) -> str:
    """Name a field in [0, MAX_FIELDS).

    >>> field_name(1), field_name(27)
    ('Materials Science', 'Applied Materials Science')
    """
    return _KINDS[field // len(_FIELDS)] + _NAMES[field % len(_FIELDS)]


def field_words(field: int) -> tuple[str, ...]:
    """Return a field's FIELD_WORDS words, the most frequent first."""
    return tuple(_FIELDS[_NAMES[field % len(_FIELDS)]].split())


def topic_name(field: int, topic: int) -> str:
    """Name a topic in [0, MAX_TOPICS) of a field by two of the field's words.

    >>> topic_name(1, 0)
    'Alloy film'
    """
    first, second = field_words(field)[2 * topic : 2 * topic + 2]
    return f"{first} {second}".capitalize()


def journals(field: int) -> tuple[str, ...]:
    """Return the names of a field's FIELD_JOURNALS journals, the largest first."""
    name = field_name(field)
    return tuple(pattern.format(name) for pattern in _JOURNALS)
