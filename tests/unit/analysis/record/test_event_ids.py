from analysis.record.event_timeline import FIRST_EVENT, event_id_of, event_order, operation_id


def test_a_repeated_operation_belongs_to_its_event_and_a_line_of_none_to_nobody() -> None:
    found = [operation_id({"event_id": name}) for name in ("e1", "e1.2", "e12.10", None)]
    assert found == ["e1", "e1", "e12", ""] and operation_id({}) == ""


def test_events_come_in_the_order_of_the_plan() -> None:
    assert sorted(["e10", "e2", "e0", "e1"], key=event_order) == ["e0", "e1", "e2", "e10"]


def test_rows_of_before_there_were_events_are_of_the_only_one() -> None:
    assert (event_id_of({}), event_id_of({"event_id": None}), event_id_of({"event_id": "e3"})) == (
        FIRST_EVENT,
        FIRST_EVENT,
        "e3",
    )
