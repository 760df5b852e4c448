"""Tables of a study for other programs, and its picture."""

from dataclasses import replace
from pathlib import Path

import pytest
from kept_pages import read_kept

from tinsmith.lab.study.record import StudyRecord
from tinsmith.lab.user_task.run import study_frame, study_plot
from tinsmith.types.errors import DataError

pytestmark = pytest.mark.pictures

VALUES = Path(__file__).parents[3] / "docs" / "results" / "values"


@pytest.fixture(scope="module")
def study() -> StudyRecord:
    return read_kept((VALUES / "dead-groups.json").read_text(encoding="utf-8")).results


def test_the_frame_of_a_study_has_its_gains_with_their_intervals(study: StudyRecord) -> None:
    frame = study_frame(study)
    assert frame["arm"].to_list() == [one.words for one in study.gains]
    for name in ("before", "after"):
        assert frame[name].to_list() == [getattr(one, name).value for one in study.gains]
        assert frame[f"{name} high"].to_list() == [getattr(one, name).high for one in study.gains]


def test_every_table_of_the_page_is_a_frame_by_its_title(study: StudyRecord) -> None:
    for table in study.tables:
        assert study_frame(study, table.title).height == len(table.rows)
    with pytest.raises(DataError) as refused:
        study_frame(study, "Gain")
    assert refused.value.field == "table"
    assert "Gains" in str(refused.value.fix)


def test_a_study_draws_the_picture_of_its_page(study: StudyRecord) -> None:
    assert study_plot(study).svg.startswith("<svg")
    with pytest.raises(DataError, match="no picture"):
        study_plot(replace(study, panels=(), curves=()))
