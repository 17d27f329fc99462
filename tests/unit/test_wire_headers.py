"""No header value can end its header, whatever its source."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from workhook.http.messages import disposition, wire_headers


@given(st.text(st.characters()))
@example("a\r\nSet-Cookie: b=c\r\n\r\n<script>")
@example("\ud800\0")
def test_a_header_value_is_one_line(value: str) -> None:
    [(name, written)] = wire_headers({"X-Name": value}, {})
    assert name == b"x-name"
    assert not any(each < 0x20 or each == 0x7F for each in written)


@given(st.text(st.characters(), max_size=300))
@example('a"; filename="b.html')
@example("a\r\nContent-Type: text/html\r\n\r\n")
def test_a_file_name_adds_no_header_parameters(name: str) -> None:
    header = disposition(name)["Content-Disposition"]
    assert header.isascii()
    assert header.isprintable()
    kind, *parameters = header.split('"')
    assert kind == "attachment; filename="
    assert len(parameters) == 2
    assert ";" not in parameters[1].removeprefix("; filename*=UTF-8''")
