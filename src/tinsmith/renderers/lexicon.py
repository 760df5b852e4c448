"""Words of the built-in corpus, by their role in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_TEXT: Mapping[str, str] = {
    "work": """
        paper article study report review letter preprint thesis chapter book note essay
        survey""",
    "label": "disruptive consolidating neutral",
    "sign": "positive negative zero high low large small",
    "thing": """
        paper author journal dataset experiment model sample citation reference field patent
        method result network graph measurement simulation observation theory question title
        abstract reader editor""",
    "things": """
        papers authors journals datasets experiments models samples citations references
        fields patents methods results networks graphs measurements simulations observations
        theories questions titles abstracts readers editors findings groups teams users
        children patients species particles""",
    "suggest": """
        suggest show prove imply reveal confirm predict report indicate demonstrate support
        establish""",
    "suggests": """
        suggests shows proves implies reveals confirms predicts reports claims argues notes
        believes""",
    "study": """
        study measure describe model test compare simulate analyse examine observe estimate
        review map classify predict explain revisit combine separate collect label rank
        train evaluate investigate propose present introduce develop discuss consider
        identify derive construct implement validate""",
    "changes": """
        changes explains extends replaces improves measures describes unifies questions
        confirms rejects predicts combines simplifies separates controls reduces increases
        reveals supports contradicts determines affects requires produces provides contains
        represents generates enables limits""",
    "done": """
        measured described modelled tested compared simulated analysed examined observed
        estimated solved classified predicted explained understood combined separated
        collected trained evaluated found obtained published computed chosen removed
        repeated proposed performed detected applied assumed""",
    "made": """
        made took gave built brought kept left carried wanted needed lost won drew read
        wrote opened closed bought sold moved pushed pulled lifted cleaned painted mended
        planted watered counted weighed shared borrowed returned remembered forgot noticed
        finished started followed helped""",
    "remain": "remain are become seem stay look appear",
    "moved": """
        rose fell grew dropped changed increased decreased doubled varied shifted improved
        declined converged vanished""",
    "manner": """
        often rarely usually directly together alone first later clearly slowly quickly
        carefully exactly partly recently originally widely independently surprisingly
        significantly typically previously similarly specifically generally currently
        effectively strongly randomly repeatedly jointly""",
    "connector": """
        therefore however moreover finally furthermore additionally consequently
        nevertheless thus indeed instead meanwhile similarly nonetheless hence""",
    "quality": """
        new simple general exact large small early recent robust accurate careful novel
        common rare unusual complex useful quantitative statistical theoretical experimental
        empirical numerical efficient reliable popular surprising important minor central
        classical modern formal practical open fast slow stable unstable weak strong deep
        broad narrow linear random local global optimal standard significant different
        possible available various several similar specific potential critical human
        clinical social natural physical chemical biological digital public private national
        international political economic cultural environmental molecular genetic structural
        functional dynamic adaptive sparse dense continuous discrete parallel sequential
        supervised temporal spatial""",
    "property": """
        structure stability growth energy temperature density diversity accuracy cost
        variance frequency strength impact novelty age size origin mechanism distribution
        entropy mass efficiency resistance velocity symmetry behaviour response dynamics
        influence correlation sensitivity concentration performance quality complexity
        capacity function expression activity reliability uncertainty probability intensity
        wavelength conductivity viscosity toxicity prevalence mortality income""",
    "method": """
        method model theory algorithm measurement simulation experiment regression framework
        approach technique instrument index network classifier estimator protocol database
        survey proof design equation sensor scale score procedure analysis test benchmark
        sampler baseline system process program strategy treatment therapy device
        architecture transformer decoder optimizer detector spectrometer microscope
        telescope questionnaire intervention assay catalogue standard language""",
    "matter": """
        proteins galaxies polymers neurons citations languages markets crystals viruses
        climates oceans cells enzymes quarks stars lasers soils glaciers forests vaccines
        antibodies batteries catalysts membranes semiconductors superconductors graphs
        primes manifolds tensors students teachers cities elections migration inequality
        memory attention perception learning evolution genomes bacteria insects birds fishes
        volcanoes earthquakes aerosols clouds rivers planets comets neutrinos magnets fluids
        gases metals alloys ceramics glasses fibres drugs tumours hormones diets sleep
        ageing hospitals families workers companies governments communities populations
        schools universities mutations receptors tissues muscles bones infections cancers
        allergies surgeries parasites plants algae mammals reptiles fossils minerals
        sediments earth water carbon nitrogen oxygen hydrogen silicon graphene diamonds
        electrons protons photons atoms molecules ions plasmas turbulence waves signals
        images videos sounds speech texts documents databases computers robots vehicles
        aircraft engines turbines bridges buildings roads energy electricity agriculture
        food trade money banks taxes prices wages laws wars religion art music literature
        gender race childhood poverty health""",
    "field": """
        physics chemistry biology medicine mathematics economics sociology psychology
        geology astronomy linguistics history philosophy engineering statistics ecology
        genetics pharmacology neuroscience education law computing robotics oceanography
        demography archaeology agronomy optics business politics geography management
        materials epidemiology immunology cardiology oncology""",
    "person": """
        mother father sister brother farmer baker doctor nurse teacher student singer
        painter sailor driver lawyer judge soldier neighbour friend uncle aunt cousin
        grandmother gardener carpenter librarian scientist engineer writer cook shepherd
        fisherman miller tailor tinker king queen""",
    "object": """
        bread apple letter table chair window door lamp candle bottle basket blanket bucket
        hammer nail ladder rope boat wheel horse cow sheep dog cat garden tree flower stone
        wall roof bell clock coat shoe hat ring coin box key knife spoon plate cup kettle
        kitchen fire village street picture story song question answer promise ticket map
        newspaper camera phone engine piano violin""",
    "kind": """
        old young red blue green white black yellow heavy light warm cold empty full quiet
        loud bright dark broken clean dirty soft hard sharp round square long short tall
        happy sad kind strange beautiful ugly cheap expensive wooden golden silver little
        big famous lonely clever foolish""",
    "place": """
        river bridge market station harbour church school hospital museum library mountain
        valley island beach forest field farm office factory theatre hotel castle tower
        corner cellar attic square city town country border desert lake mill workshop
        laboratory university""",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "month": """
        January February March April May June July August September October November
        December spring summer autumn winter""",
    "prefix": """
        photo electro thermo nano micro macro bio geo hydro neuro astro cyto immuno poly
        mono iso hetero homo meta para proto pseudo quasi sub super ultra infra inter intra
        trans auto exo endo litho""",
    "root": """
        lumin kinet morph gen graph chrom phon magnet mechan metr plasm therm troph phyl lys
        path tax ton cardi derm oste vascul glob crystal fract vari tens kern vect spher
        cycl fluor carbon nitr sulf""",
    "ending": "ics ation ism osis ity ance ology ides ines ates ium oids ors ment onics omers itis",
    "first": """
        Al Ba Be Bo Ca Che Da De Du El Fa Fer Ga Go Ha Hu Ib Ja Jo Ka Ki Ko La Li Lo Ma Me
        Mo Na Ni No Ok Pa Pe Po Qi Ra Ri Ro Sa Se So Ta Te To Va Vi Wa We Xi Ya Yu Za Zhe""",
    "middle": """
        ba de di fa ga ge ka ki la le li lo ma me mi na ne ni ra re ri ro sa si ta te ti va
        vi""",
    "last": """
        berg der ez ian ic ini ko lin man mura nen ng nov os rez ris sen ski son ton va ya
        yan zaki""",
    "tail": "5 6 7 8 9",
    "early": "0 1 2",
    "few": "2 3 4 5 6 7 8 9",
    "head": "1 2 3 4 5 6 7 8 9",
    "digit": "0 1 2 3 4 5 6 7 8 9",
}

WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {symbol: tuple(text.split()) for symbol, text in _TEXT.items()}
)
"""Words of every terminal symbol of the grammar."""
