"""What the environment may say, and what is only told."""

from __future__ import annotations

from workhook.core.config import load, unknown_variables


def test_variables_that_are_no_settings_are_told_and_refuse_nothing() -> None:
    environ = {
        "WORKHOOK_PROT": "1",
        "WORKHOOK_PORT_FILE": "/x",  # only secrets may stand in a file
        "WORKHOOK_SERVICE_HOST": "10.0.0.1",
        "WORKHOOK_PUSHER": "octo",
        "WORKHOOK_PORT": "9000",
        "PATH": "/bin",
    }
    told = unknown_variables(environ)
    assert [each.partition(":")[0] for each in told] == ["WORKHOOK_PORT_FILE", "WORKHOOK_PROT", "WORKHOOK_SERVICE_HOST"]
    assert told[1].endswith("did you mean WORKHOOK_PORT?")
    assert load({}, environ).port == 9000
