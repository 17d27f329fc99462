"""Progress written to a pipe takes only a few lines, however many steps a command reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.cli.output import LINE_EVERY_S, ProgressLines

pytestmark = pytest.mark.one_database


@given(steps=st.integers(1, 5_000), step_s=st.floats(0.001, 0.5), repeated=st.integers(0, 30))
def test_a_stage_has_one_line_at_its_end_and_one_every_ten_seconds(steps: int, step_s: float, repeated: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lines = list[str]()
        patch.setattr("workhook.cli.output.click.echo", lambda text, err: lines.append(text))
        now = 0.0
        show = ProgressLines(lambda: now)
        for done in range(steps + 1):
            show("files copied", done, steps)
            now += step_s
        for _ in range(repeated):
            show("files copied", steps, steps)
    assert lines[-1] == f"workhook: files copied: {steps:,}"
    assert len(lines) <= 1 + steps * step_s / LINE_EVERY_S


def test_a_stage_without_steps_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressLines()("files copied", 0, 0)
    assert capsys.readouterr().err == ""
