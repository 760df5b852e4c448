"""RL against rubrics beside its control, `tinsmith run rubric_rewards.py`: what do rewards by rubrics teach?"""

from tinsmith import Arm, Expectation, PerItem, Size, Study, checks

study = Study(
    name="rubric_rewards",
    title="Rubrics as rewards",
    question="Does RL on the pass rate of a rubric teach a model to follow instructions that are new to it?",
    task="rlvr",
    arms=(Arm("rl", "RL"), Arm("shuffled", "RL, shuffled labels", shuffle_labels=True)),
    sizes={"nano": Size(split_seed=0, save_every=0)},
    score=PerItem("reward", "rubric's score"),
    control="shuffled",
    source="arXiv:2605.24218",
    expectations=(
        Expectation("RL raises what rubrics give", checks.rises("rl")),
        Expectation("another instruction's rubric is not shown to", checks.no_gain("shuffled")),
    ),
)
