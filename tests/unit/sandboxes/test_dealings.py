"""Time that was lost to a world that was away, and which commands it is given to."""

from infra.sandboxes.supervisor.dealings import LOSS_S, Dealings


def test_time_that_was_lost_is_given_to_the_command_that_lost_it() -> None:
    dealings, again = Dealings(), []
    wait = dealings.wait("a", 0)
    dealings.begin(0)
    assert dealings.excuse("b", lambda: again.append("b")) == 0
    assert dealings.excuse("a", lambda: again.append("a")) < 0
    assert again == []
    dealings.end(wait, 7.5, took_s=0.5)
    assert again == ["a"]
    assert dealings.excuse("a", lambda: again.append("a")) == 7
    assert dealings.excuse("a", lambda: again.append("a")) == 0
    wait = dealings.wait("a", 10)
    dealings.begin(10)
    dealings.end(wait, 10.7, took_s=0.3)
    assert dealings.excuse("a", lambda: again.append("a")) == 0, "a busy machine is no outage"
    assert dealings.seen("a") is None
    dealings.clock = {"now_s": 4, "elsewhere_s": 1}
    assert dealings.seen("a") == {"now_s": 4, "elsewhere_s": 1, "outage_s": 7.0}
    assert dealings.seen("b") == {"now_s": 4, "elsewhere_s": 1, "outage_s": 0.0}


def test_everyone_who_waits_is_given_what_was_lost_while_they_did() -> None:
    dealings, again = Dealings(), []
    first = dealings.wait("a", 0)
    dealings.begin(0)
    for op_id, came_s in (("b", 4), ("b", 5), ("c", 10 - LOSS_S)):
        dealings.wait(op_id, came_s)
    for op_id in "bc":
        assert dealings.excuse(op_id, lambda op_id=op_id: again.append(op_id)) < 0  # type: ignore[misc]
    dealings.end(first, 10, took_s=0)
    assert again == ["b", "c"]
    assert dealings.lost_s == {"a": 10, "b": 6}
    assert dealings.excuse("b", again.clear) == 6
    assert dealings.excuse("c", again.clear) == 0


def test_a_command_that_always_waits_has_an_end_all_the_same() -> None:
    """What was lost so far is known whenever a request has been answered, whatever waits behind it."""
    dealings, told = Dealings(), []
    waits = [dealings.wait("a", at) for at in range(3)]
    dealings.begin(2)
    assert dealings.excuse("a", lambda: told.append(dealings.excuse("a", lambda: None))) < 0
    dealings.end(waits[0], 3, took_s=1)
    assert told == [0]


def test_the_world_s_own_time_is_not_lost_to_who_waits_for_it() -> None:
    dealings = Dealings()
    first = dealings.wait("a", 0)
    dealings.begin(0)
    dealings.wait("b", 0)
    dealings.end(first, 30, took_s=30)
    assert dealings.lost_s == {}


def test_who_has_left_waits_no_more() -> None:
    dealings = Dealings()
    first, second = dealings.wait("a", 0), dealings.wait("b", 0)
    dealings.begin(0)
    dealings.leave(second)
    assert dealings.excuse("b", lambda: None) == 0
    dealings.end(first, 9, took_s=0)
    assert dealings.lost_s == {"a": 9}
