"""Planning a Trello import: nothing is lost or invented, and errors are named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.work.trello import OPTIONAL, encoded, make_export
from workhook.core.clock import parse_rfc3339
from workhook.web.frame.formats import hue
from workhook.work.board.tasks.inputs import KEYS_MAX
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.mapping import PROPERTIES_MAX_BYTES, UniqueNames, truncate_bytes
from workhook.work.portability.imports.plan import Choices, ImportPlan, PlannedTask, fingerprint
from workhook.work.portability.imports.trello import plan_of, read_export

Object = dict[str, Any]


def plan(board: Object, **more: Any) -> ImportPlan:
    return plan_of(read_export(encoded(board)), Choices(**more))


def board_with(*cards: Object, **more: Any) -> Object:
    """Return a board with one list that contains the cards."""
    lists = more.pop("lists", [{"id": "l1", "name": "Ideas", "closed": False, "pos": 1}])
    numbered = [
        {"id": f"c{at}", "idList": "l1", "name": f"Card {at}", "pos": at, **card} for at, card in enumerate(cards)
    ]
    return {"id": "b1", "name": "Board", "lists": lists, "cards": numbered, **more}


def only(board: Object, **more: Any) -> PlannedTask:
    [task] = plan(board, **more).tasks
    return task


def lost(made: ImportPlan) -> dict[str, tuple[int, list[str], str | None]]:
    return {each.what: (each.count, each.names, each.kept) for each in made.lost}


def faults(data: bytes | Object) -> list[str]:
    with pytest.raises(InvalidFile) as raised:
        read_export(data if isinstance(data, bytes) else encoded(data))
    return raised.value.faults


# --- a realistic board ------------------------------------------------------------------------------------------


def test_a_large_old_board_is_planned_completely() -> None:
    board = make_export(7)
    made = plan(board)
    assert made.title == "Website relaunch"
    assert len(made.columns) == 18 + 1
    assert [each.title for each in made.columns].count("Archived") == 1
    assert made.columns[-1].title == "Archived"
    assert len(made.tasks) == 122
    archived = [each for each in made.tasks if each.column_key == made.columns[-1].key]
    assert len(archived) == 78
    assert all(each.finished for each in archived)
    assert sum(len(each.comments) for each in made.tasks) == 300
    assert any("1,000 actions" in each for each in made.warnings)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_is_that_of_trello(data: st.DataObject) -> None:
    board = make_export(
        data.draw(st.integers(0, 2**32)),
        lists=data.draw(st.integers(0, 6)),
        closed_lists=data.draw(st.integers(0, 3)),
        cards=(cards := data.draw(st.integers(0, 25))),
        closed=data.draw(st.integers(0, cards)),
        actions=data.draw(st.integers(0, 40)),
        comments=data.draw(st.integers(0, 40)),
        checklists=data.draw(st.integers(0, 12)),
        missing=data.draw(st.sampled_from([0.0, 0.3, 1.0])),
    )
    made = plan(board)
    of_list = {each["id"]: each for each in board["lists"]}
    assert {each.key for each in made.tasks} == {f"task:{each['id']}" for each in board["cards"]}
    assert len(made.tasks) == len(board["cards"])

    def position(thing: Object) -> float:
        return float(thing.get("pos", "inf"))

    wanted = sorted(board["lists"], key=lambda each: (each["closed"], position(each)))
    assert [each.key for each in made.columns][: len(wanted)] == [f"column:{each['id']}" for each in wanted]
    for each in wanted:
        inside = sorted((c for c in board["cards"] if c["idList"] == each["id"] and not c["closed"]), key=position)
        found = [task.key for task in made.tasks if task.column_key == f"column:{each['id']}"]
        assert found == [f"task:{card['id']}" for card in inside]
    closed = [each for each in board["cards"] if each["closed"]]
    order = [each["id"] for each in wanted]
    closed.sort(key=lambda card: (order.index(card["idList"]) if card["idList"] in of_list else 99, position(card)))
    last = made.columns[-1].key if made.columns else ""
    assert [task.key for task in made.tasks if task.column_key == last and last.endswith("archived")] == [
        f"task:{card['id']}" for card in closed
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.5, 1.0]))
def test_a_plan_respects_the_limits_and_is_deterministic(seed: int, missing: float) -> None:
    board = make_export(seed, lists=4, cards=20, closed=5, actions=50, comments=30, checklists=20, missing=missing)
    made = plan(board)
    assert made == plan(json.loads(encoded(board)))
    for task in made.tasks:
        assert 1 <= len(task.title) <= 255
        assert len(task.fields) < KEYS_MAX
        assert [each.created_at or 0 for each in task.comments] == sorted(
            each.created_at or 0 for each in task.comments
        )
        assert len(set(task.labels)) == len(task.labels)
    keys = [each.key for each in made.tasks] + [each.key for task in made.tasks for each in task.comments]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("kind", [*OPTIONAL, "actions"])
def test_no_key_is_required(kind: str) -> None:
    board = make_export(3, lists=3, closed_lists=1, cards=8, closed=2, actions=20, comments=20, checklists=6)
    keys = {key for each in board[kind] for key in each}
    for key in sorted(keys):
        without = json.loads(encoded(board))
        for each in without[kind]:
            each.pop(key, None)
        assert len(plan(without).tasks) == 8
    for key in sorted(set(board) - {"cards"}):
        assert len(plan({name: value for name, value in board.items() if name != key}).tasks) == 8


def test_null_is_treated_as_missing() -> None:
    board = make_export(4, lists=2, cards=3, closed=1, actions=9, comments=9, checklists=3)
    nothing = {**dict.fromkeys(board), "lists": None, "cards": [None, dict.fromkeys(board["cards"][0])]}
    made = plan(nothing)
    assert (made.title, [each.title for each in made.tasks]) == ("(no name)", ["(no name)"])
    assert [each.title for each in made.columns] == ["No list"]


# --- columns ------------------------------------------------------------------------------------------------------


def test_archived_lists_come_last_and_keep_their_cards() -> None:
    lists = [
        {"id": "old", "name": "Old", "closed": True, "pos": 1},
        {"id": "l1", "name": "Now", "closed": False, "pos": 2},
    ]
    made = plan(board_with({}, {"idList": "old"}, {"idList": "old", "closed": True}, lists=lists))
    assert [each.title for each in made.columns] == ["Now", "Old (archived)", "Archived"]
    titles = {each.key: each.title for each in made.columns}
    assert [(each.title, titles[each.column_key], each.finished) for each in made.tasks] == [
        ("Card 0", "Now", False),
        ("Card 1", "Old (archived)", True),
        ("Card 2", "Archived", True),
    ]
    assert made.tasks[2].fields["trello_list"] == "Old"


def test_cards_without_a_list_share_their_own_column() -> None:
    made = plan(board_with({"idList": "gone"}, {"idList": None}, {}))
    assert [each.title for each in made.columns] == ["Ideas", "No list"]
    assert [each.column_key == made.columns[1].key for each in made.tasks] == [False, True, True]


def test_lists_beyond_the_limit_share_the_last_column() -> None:
    lists = [{"id": f"l{at}", "name": f"List {at}", "pos": at} for at in range(300)]
    made = plan(board_with(*({"idList": f"l{at}"} for at in (299, 0, 298, 196, 197)), lists=lists))
    assert [each.title for each in made.columns[-2:]] == ["List 196", "More lists"]
    assert len(made.columns) == 198
    assert [(each.title, each.fields.get("trello_list")) for each in made.tasks] == [
        ("Card 1", None), ("Card 3", None), ("Card 4", "List 197"), ("Card 2", "List 298"), ("Card 0", "List 299"),
    ]  # fmt: skip
    assert made.warnings == ["the cards of the last 103 lists were merged into the column “More lists”"]


def test_other_lists_can_be_marked_as_done() -> None:
    board = board_with({}, lists=[{"id": "l1", "name": "Erledigt 🎉"}])
    made = plan(board, done=["erledigt", "Nowhere"])
    assert made.columns[0].stage == "done"
    assert made.warnings == ["unknown list “Nowhere”"]


def test_cards_complete_in_trello_are_finished() -> None:
    at = "2024-05-06T07:08:09.123Z"
    task = only(board_with({"dueComplete": True, "due": "2024-05-01T00:00:00.000Z", "dateLastActivity": at}))
    assert (task.finished, task.finished_at) == (True, parse_rfc3339(at))
    assert task.deadline == parse_rfc3339("2024-05-01T00:00:00Z")
    assert only(board_with({"dueComplete": False, "dateLastActivity": at})).finished_at is None


# --- cards --------------------------------------------------------------------------------------------------------


def test_checklists_become_sections_in_order() -> None:
    def checklist(name: str, position: float, *items: str, card: str | None = "c0") -> Object:
        made = [{"name": text.strip("!"), "state": "complete" if text.endswith("!") else "incomplete", "pos": 9 - at}
                for at, text in enumerate(items)]  # fmt: skip
        return {"id": f"k{position}", "idCard": card, "name": name, "pos": position, "checkItems": made}

    board = board_with(
        {"idChecklists": ["k3"]},
        checklists=[
            checklist("Later", 2, "x"),
            checklist("Steps", 1, "two!", "one", "two"),
            checklist("Steps", 1.5),
            checklist("By its id", 3, card=None),
            checklist("Loose", 4, "y", card="gone"),
        ],
    )
    made = plan(board)
    assert made.tasks[0].sections == {
        "Steps": {"two": "incomplete", "one": "incomplete", "two (2)": "complete"},
        "Steps (2)": {},
        "Later": {"x": "incomplete"},
        "By its id": {},
    }
    assert list(made.tasks[0].sections) == ["Steps", "Steps (2)", "Later", "By its id"]
    assert lost(made) == {"checklists": (1, [], None)}


def test_a_long_checklist_continues_in_a_second_section() -> None:
    items = [{"name": f"item {at}", "state": "complete", "pos": at} for at in range(250)]
    task = only(board_with({}, checklists=[{"id": "k", "idCard": "c0", "name": "Many", "checkItems": items}]))
    assert {name: len(inside) for name, inside in task.sections.items()} == {
        "Many": 100,
        "Many (2)": 100,
        "Many (3)": 50,
    }


def test_truncated_data_is_reported_by_card() -> None:
    checklists = [
        {"id": f"k{at}", "idCard": "c0", "name": f"List {at}", "checkItems": [{"name": "x" * 300}]} for at in range(103)
    ]
    custom = [{"id": f"f{at}", "name": f"Field {at}"} for at in range(120)]
    values = [{"idCustomField": each["id"], "value": {"text": "y"}} for each in custom]
    made = plan(
        board_with(
            {"name": "n" * 300, "desc": "ä" * 40_000, "due": "soon", "customFieldItems": values},
            checklists=checklists,
            customFields=custom,
            actions=[{"type": "commentCard", "data": {"card": {"id": "c0"}, "text": "z" * 70_000}}],
        )
    )
    [task] = made.tasks
    card = f"card “{'n' * 77}...”: "
    assert set(made.warnings) == {
        card + "its name is shortened to 255 characters; the full text is at the start of the description",
        card + "its description is shortened to 64 KiB",
        card + "its due date “soon” is not a valid date or time and is kept in the field trello_due",
        card + "its checklist items are shortened to 255 characters",
        card + "only 100 of its checklists are kept",
        card + "only 99 of its fields are kept",
        card + "comments shortened to 64 KiB: 1",
    }
    assert len(task.title) == 255
    assert task.description is not None
    assert task.description.startswith("n" * 300 + "\n\nä")
    assert len(task.description.encode()) <= 65_536
    assert len(task.comments[0].text.encode()) <= 65_536
    assert (len(task.fields), len(task.sections)) == (99, 100)


def test_the_size_of_a_task_is_limited() -> None:
    items = [{"name": f"{at} " + "w" * 240} for at in range(3000)]
    made = plan(board_with({}, checklists=[{"idCard": "c0", "checkItems": items}]))
    kept = sum(len(name) for section in made.tasks[0].sections.values() for name in section)
    assert PROPERTIES_MAX_BYTES - 300 < kept <= PROPERTIES_MAX_BYTES
    assert made.warnings == ["card “Card 0”: its checklist items beyond 256 KiB are left out"]


def test_labels_have_their_names_or_their_colors() -> None:
    labels = [
        {"id": "a", "name": "Bug", "color": "red"},
        {"id": "b", "name": "  ", "color": "green"},
        {"id": "c", "name": "", "color": None},
        {"id": "d", "name": "Bug", "color": "blue"},
        {"id": "e", "name": "Late", "color": "sky"},
        {"id": "f", "name": "", "color": "purple_dark"},
    ]
    task = only(board_with({"labels": labels[:4], "idLabels": ["a", "b", "e", "f", "gone"]}, labels=labels))
    assert task.labels == ["Bug", "Green", "Late", "Dark purple"]
    more = [{"id": "g", "name": "Old", "color": "black"}, {"id": "h", "name": "New", "color": "lime_light"}]
    made = plan(board_with({"labels": [*labels[:4], *more]}, labels=labels))
    assert made.label_colors == {"Bug": "red", "Late": "sky", "New": "lime"}
    assert [hue(each) for each in ("Green", "Dark purple", "Light red", "Sky")] == [4, 9, 0, 6]


def test_custom_fields_attachments_and_other_data_become_fields() -> None:
    custom = [
        {"id": "p", "name": "Priority", "type": "list", "options": [{"id": "h", "value": {"text": "High"}}]},
        {"id": "n", "name": "Points", "type": "number"},
        {"id": "m", "name": "Points", "type": "number"},
    ]
    items = [
        {"idCustomField": "p", "value": None, "idValue": "h"},
        {"idCustomField": "n", "value": {"number": "3.5"}},
        {"idCustomField": "m", "value": {"number": 4}},
        {"idCustomField": "gone", "value": {"checked": "true"}},
    ]
    attachments = [
        {"id": "x", "name": "Plan", "url": "https://example.com/plan", "isUpload": False},
        {"id": "y", "name": "https://example.com/2", "url": "https://example.com/2"},
        {"id": "z", "name": "photo.png", "url": "https://trello.com/1/photo.png", "isUpload": True},
    ]
    card = {
        "customFieldItems": items,
        "attachments": attachments,
        "cover": {"idAttachment": "z"},
        "start": "2024-01-01T00:00:00.000Z",
        "shortUrl": "https://trello.com/c/abc",
    }
    made = plan(board_with(card, customFields=custom))
    [task] = made.tasks
    assert task.fields == {
        "trello_url": "https://trello.com/c/abc",
        "trello_start": "2024-01-01T00:00:00.000Z",
        "trello_attachments": "Plan: https://example.com/plan\nhttps://example.com/2\n"
        "photo.png: https://trello.com/1/photo.png",
        "Points": "3.5",
        "Points (2)": "4",
        "custom field": "true",
    }
    assert task.cover_url == "https://trello.com/1/photo.png"
    assert task.priority == "high"
    assert made.warnings == []
    assert lost(made) == {
        "files": (1, ["photo.png"], "the field trello_attachments, as addresses"),
        "start_dates": (1, ["Card 0"], "the field trello_start"),
    }


@pytest.mark.parametrize(
    "url", ["ftp://example.com/x", "javascript:alert(1)", "https://", "https://x/" + "y" * 3000, "a b"]
)
def test_an_invalid_cover_address_is_ignored(url: str) -> None:
    made = plan(board_with({"cover": {"sharedSourceUrl": url}}))
    assert made.tasks[0].cover_url is None
    assert made.warnings == ["card “Card 0”: its cover image is left out because its URL is not valid"]


def test_members_are_known_by_name_even_after_leaving() -> None:
    ada = {"id": "m1", "fullName": "Ada Lovelace", "username": "ada"}
    left = {"id": "m2", "fullName": "Bob", "username": "bob"}
    comment = {"type": "commentCard", "memberCreator": left, "data": {"card": {"id": "c0"}, "text": "bye"}}
    task = only(board_with({"idMembers": ["m1", "m2", "m3", "m1"]}, members=[ada], actions=[comment]))
    assert [each.display_name for each in task.members] == ["Ada Lovelace (ada)", "Bob (bob)", "m3"]


def test_comments_are_in_chronological_order() -> None:
    def comment(text: str, date: str | None, **more: Any) -> Object:
        return {"type": "commentCard", "date": date, "data": {"card": {"id": "c0"}, "text": text}, **more}

    board = board_with(
        {},
        actions=[
            comment("fourth", "2024-01-02T00:00:00.000Z"),
            comment("third", "2024-01-02T00:00:00.000Z"),
            comment("copied", "2024-01-01T00:00:00.000Z", type="copyCommentCard"),
            comment("first", None, id="5a0000000000000000000001"),
            comment("   ", "2024-01-01T00:00:00.000Z"),
            {**comment("of a card that is gone", None), "data": {"card": {"id": "gone"}, "text": "x"}},
            {"type": "updateCard", "data": "anything"},
        ],
    )
    made = plan(board)
    assert [each.text for each in made.tasks[0].comments] == ["first", "copied", "third", "fourth"]
    assert made.tasks[0].comments[0].created_at == 0x5A000000 * 1000
    assert lost(made) == {"history": (1, [], None), "comments": (1, [], None)}


def test_missing_and_duplicate_ids_are_distinguished() -> None:
    board = board_with({"id": None}, {"id": None, "name": "Card 0"}, {"id": "same"}, {"id": "same"})
    keys = [each.key for each in plan(board).tasks]
    assert keys == ["task:l1/Card 0", "task:l1/Card 0 (2)", "task:same", "task:same (2)"]


def test_a_change_in_trello_changes_the_fingerprint() -> None:
    before, after = only(board_with({"desc": "a"})), only(board_with({"desc": "b"}))
    assert fingerprint(before) == fingerprint(only(board_with({"desc": "a"})))
    assert fingerprint(before) != fingerprint(after)


def test_the_fingerprint_is_stable_across_versions() -> None:
    """Otherwise every card imported by an older version would look changed."""
    card = {"desc": "a", "idMembers": ["m"], "labels": [{"id": "x", "name": "Bug", "color": "red"}], "closed": True}
    board = board_with(card, members=[{"id": "m", "fullName": "Ada", "username": "ada"}])
    assert fingerprint(only(board)) == "d2991b23c715a2a8516abbbf"
    covered = {"desc": "a", "cover": {"sharedSourceUrl": "https://images.example.com/a.jpg"}}
    assert fingerprint(only(board_with(covered))) == "22ea94fa36d764afb20c017c"


# --- newer exports ----------------------------------------------------------------------------------------------


def test_checklist_items_keep_dates_and_people_in_their_names() -> None:
    items = [
        {"name": "Write", "state": "incomplete", "pos": 1, "due": "2024-05-01T12:00:00.000Z", "idMember": "m1"},
        {"name": "Read", "state": "complete", "pos": 2, "due": None, "idMember": "gone"},
        {"name": "n" * 255, "pos": 3, "due": "soon"},
        {"name": "Plain", "pos": 4, "due": None, "idMember": None, "dueReminder": -1},
    ]
    checklist = {"id": "k", "idCard": "c0", "name": "Steps", "checkItems": items}
    made = plan(board_with({}, checklists=[checklist], members=[{"id": "m1", "fullName": "Ada", "username": "ada"}]))
    assert made.tasks[0].sections == {
        "Steps": {
            "Write — 2024-05-01, Ada (ada)": "incomplete",
            "Read — gone": "complete",
            "n" * 247 + "… — soon": "incomplete",
            "Plain": "incomplete",
        }
    }
    assert lost(made) == {"item_details": (3, ["Card 0"], "the name of the item")}
    assert made.warnings == ["card “Card 0”: its checklist items are shortened to 255 characters"]


def test_votes_and_cover_colors_are_kept_as_text() -> None:
    ada = {"id": "m1", "fullName": "Ada", "username": "ada"}
    cards = (
        {"badges": {"votes": 2}, "idMembersVoted": ["m1", "m2"], "cover": {"color": "green"}},
        {"badges": {"votes": 3}},
        {"badges": {"votes": None}, "idMembersVoted": [], "stickers": [{"id": "s"}]},
    )
    made = plan(board_with(*cards, members=[ada]))
    fields = [each.fields for each in made.tasks]
    assert fields == [{"trello_votes": "2: Ada (ada), m2", "trello_cover": "green"}, {"trello_votes": "3"}, {}]
    assert lost(made) == {
        "votes": (5, ["Card 0", "Card 1"], "the field trello_votes"),
        "cover_colors": (1, ["green"], "the field trello_cover"),
        "stickers": (1, ["Card 2"], None),
    }


def test_unsupported_data_is_counted_and_named() -> None:
    labels = [{"id": "a", "name": "Bug", "color": "red"}, {"id": "b", "name": "", "color": "blue"}]
    made = plan(board_with({"labels": labels}, labels=labels, desc="Our site", actions=[{"type": "createCard"}]))
    assert lost(made) == {
        "project_description": (1, ["Our site"], None),
        "history": (1, [], None),
    }


def test_custom_fields_of_every_type_keep_their_values() -> None:
    fields = [
        {"id": "t", "name": "Text", "type": "text"},
        {"id": "n", "name": "Number", "type": "number"},
        {"id": "d", "name": "Date", "type": "date"},
        {"id": "c", "name": "Checkbox", "type": "checkbox"},
    ]
    values = [{"text": "x"}, {"number": "1.50"}, {"date": "2024-05-01T12:00:00.000Z"}, {"checked": "true"}]
    items = [{"idCustomField": field["id"], "value": value} for field, value in zip(fields, values, strict=True)]
    assert only(board_with({"customFieldItems": items}, customFields=fields)).fields == {
        "Text": "x", "Number": "1.50", "Date": "2024-05-01T12:00:00.000Z", "Checkbox": "true",
    }  # fmt: skip


def test_the_completion_time_is_taken_from_the_history() -> None:
    def change(day: int, card: Object, old: Object, **more: Any) -> Object:
        date = f"2024-01-0{day}T00:00:00.000Z"
        return {"type": "updateCard", "date": date, "data": {"card": card, "old": old, **more}}

    done = {"id": "l2", "name": "Done", "pos": 2}
    last = {"dateLastActivity": "2024-01-09T00:00:00.000Z"}
    board = board_with(
        {"dueComplete": True, **last},
        {"closed": True, **last},
        {"idList": "l2", **last},
        {"dueComplete": True, **last},
        lists=[{"id": "l1", "name": "Ideas", "pos": 1}, done],
        actions=[
            change(4, {"id": "c0", "dueComplete": True}, {"dueComplete": False}),
            change(3, {"id": "c0", "dueComplete": True}, {"dueComplete": False}),
            change(5, {"id": "c1", "closed": True}, {"closed": False}),
            change(6, {"id": "c2"}, {"idList": "l1"}, listAfter=done),
            {"type": "updateCard", "date": 7, "data": []},
            {"type": "updateCard", "date": "x", "data": {"card": 7, "old": None, "listAfter": "x"}},
        ],
    )
    at = {each.title: each.finished_at for each in plan(board).tasks}
    assert at == {
        "Card 0": parse_rfc3339("2024-01-04T00:00:00Z"),
        "Card 1": parse_rfc3339("2024-01-05T00:00:00Z"),
        "Card 2": parse_rfc3339("2024-01-06T00:00:00Z"),
        "Card 3": parse_rfc3339("2024-01-09T00:00:00Z"),
    }


# --- invalid files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Card ID,Card Name\n", "the file is not valid JSON: line 1, column 1"),
        (b"[]", "this is not a board export: it contains a list, not an object"),
        (b'"text"', "this is not a board export: it contains the text “text”, not an object"),
        (b'{"name": "package", "version": "1"}', "this is not a board export: it has no lists or cards"),
        (b'{"id": "1", "idBoard": "2", "idList": "3"}', "this is the export of a single card"),
    ],
)
def test_a_file_that_is_not_an_export_is_refused_with_a_reason(data: bytes, said: str) -> None:
    [fault] = faults(data)
    assert fault.startswith(said)


def test_every_wrong_type_is_named() -> None:
    card = {"name": 7, "closed": "yes", "pos": "top", "idMembers": ["a", 1], "cover": [], "labels": ["red"]}
    comment = {"type": "commentCard", "data": {"text": True, "card": None}}
    assert sorted(faults(board_with(card, name=["Board"], members={}, actions=[comment]))) == [
        "actions[0].data.text must be text, but is true",
        "cards[0].closed must be true or false, but is the text “yes”",
        "cards[0].cover must be an object, but is a list",
        "cards[0].idMembers[1] must be text, but is the number 1",
        "cards[0].labels[0] must be an object, but is the text “red”",
        "cards[0].name must be text, but is the number 7",
        "cards[0].pos must be a number, but is the text “top”",
        "members must be a list, but is an object",
        "name must be text, but is a list",
    ]


def test_only_the_first_errors_are_listed() -> None:
    assert len(faults(board_with(*({"name": 1} for _ in range(100))))) == 20


def test_broken_characters_are_repaired() -> None:
    data = (
        b'\xef\xbb\xbf{"lists": [], "cards": [{"id": "c", "name": "cut \\ud83d", "desc": "a\\u0000b \\ud83d\\ude00"}]}'
    )
    [task] = plan_of(read_export(data), Choices()).tasks
    assert (task.title, task.description) == ("cut \ufffd", "ab 😀")


@given(st.lists(st.text("ab", max_size=3), max_size=30))
def test_names_are_made_unique(names: list[str]) -> None:
    name_of = UniqueNames(5)
    found = [name_of(each) for each in names]
    assert len(set(found)) == len(found)
    assert all(len(each) <= 5 for each in found)


@given(st.text(), st.integers(0, 20))
def test_text_is_truncated_between_characters(text: str, limit: int) -> None:
    kept = truncate_bytes(text, limit)
    assert len(kept.encode()) <= limit
    assert kept == text or text.startswith(kept.removesuffix("…"))
