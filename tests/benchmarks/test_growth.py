"""One tiny point of the growth tables, and the claims from rows worked out by hand."""

from growth import as_table, claims_of, growth, measured

TINY = {"layers": 1, "width": 16, "prompt": 4, "reply": 2, "batch": 2, "group": 2, "vocabulary": 32}


def row(value, sample, update, memory, operations):
    quantities = {"sample_seconds": sample, "update_seconds": update, "extra_bytes": memory}
    return {"swept": "reply", "value": value, **quantities, "operations": operations}


def test_growth_is_beside_that_of_the_work():
    rows = [row(32, 1.0, 1.0, 1.0, 10.0), row(64, 9.0, 9.0, 9.0, 9.0), row(128, 2.0, 1.5, 3.0, 15.0)]
    assert growth(rows, "reply", "sample_seconds") == 2 / 1.5
    assert [claim["value"] for claim in claims_of(rows)] == [1.333, 1.0, 2.0]
    assert [claim["holds"] for claim in claims_of(rows)] == [False, True, False]
    assert len(as_table(rows).splitlines()) == 4


def test_a_point_is_trained_in_a_process_of_its_own():
    point = measured("reply", TINY)
    assert point["swept"] == "reply"
    assert point["value"] == 2
    assert min(point["sample_seconds"], point["update_seconds"], point["operations"]) > 0
