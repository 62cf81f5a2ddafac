"""The memory of a run of a well-known shape, as the child counts it."""

from taut.launch.textbook import whole_plan


def test_the_server_tells_what_the_library_counts(client):
    answer = client.get("/api/plan?size=SmolLM2-135M&reply=16&checkpointing=1")
    assert answer.status_code == 200
    assert answer.json() == whole_plan("SmolLM2-135M", 16, False, True, False)


def test_what_makes_no_sense_is_refused(client):
    for query, told in {
        "size=70B": "there is no size '70B'",
        "": "there is no size ''",
        "size=SmolLM2-135M&reply=0": "1 to 16384",
        "size=SmolLM2-135M&reply=-1": "whole number",
        "size=SmolLM2-135M&lora=2": "at most 1",
    }.items():
        answer = client.get(f"/api/plan?{query}")
        assert answer.status_code == 400
        assert told in answer.json()["error"]
