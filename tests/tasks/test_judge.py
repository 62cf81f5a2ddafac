"""The judge, before a server of our own on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from taut.tasks import judge as module
from taut.tasks.judge import Judge, last_number
from taut.tasks.rewards.function import FunctionScorer
from taut.types import Prompt, Rollout

httpx = pytest.importorskip("httpx")


class Server(ThreadingHTTPServer):
    """Answers a question with its length, after the statuses it was told to answer with first."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses: list[int] = []
        self.requests: list[dict] = []
        self.headers_seen: list[str | None] = []
        self.now = self.most = 0
        self.pause = 0.0
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append(request)
            server.headers_seen.append(self.headers.get("Authorization"))
            server.now += 1
            server.most = max(server.most, server.now)
            status = server.statuses.pop(0) if server.statuses else 200
        time.sleep(server.pause)
        question = request["messages"][0]["content"]
        text = "no idea" if "silent" in question else f"I say {len(question)}."
        body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        with server.lock:
            server.now -= 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asked(judge, *completions, **columns):
    async def ask():
        judge._client = None  # a client belongs to its event loop
        return await judge(prompts=["p"] * len(completions), completions=completions, **columns)

    return asyncio.run(ask())


def test_each_reply_is_asked_about_with_its_prompt_and_columns(server):
    judge = Judge(server.url, "a-model", "{prompt}|{completion}|{answer}|{unknown}", api_key="key")
    assert asked(judge, "ab", answer=["x"]) == [float(len("p|ab|x|{unknown}"))]
    (request,) = server.requests
    assert request == {
        "model": "a-model",
        "temperature": 0,
        "messages": [{"role": "user", "content": "p|ab|x|{unknown}"}],
    }
    assert server.headers_seen == ["Bearer key"]


def test_equal_questions_are_asked_once(server):
    judge = Judge(server.url, "m", "{completion}")
    assert asked(judge, "a", "bb", "a") == [1.0, 2.0, 1.0]
    assert asked(judge, "bb", "ccc") == [2.0, 3.0]
    assert [r["messages"][0]["content"] for r in server.requests] in (["a", "bb", "ccc"], ["bb", "a", "ccc"])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server, status):
    server.statuses = [status, status]
    assert asked(Judge(server.url, "m", "{completion}", retries=2), "a") == [1.0]
    assert len(server.requests) == 3


def test_retries_end(server):
    server.statuses = [503] * 9
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        asked(Judge(server.url, "m", "{completion}", retries=2), "a")
    assert len(server.requests) == 3


def test_a_refusal_is_not_retried(server):
    server.statuses = [401]
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        asked(Judge(server.url, "m", "{completion}"), "a")
    assert len(server.requests) == 1


def test_a_slow_answer_times_out(server):
    server.pause = 1.0
    with pytest.raises(httpx.ReadTimeout):
        asked(Judge(server.url, "m", "{completion}", timeout=0.1, retries=0), "a")


def test_a_server_that_is_not_there_is_an_error():
    with pytest.raises(httpx.ConnectError):
        asked(Judge("http://127.0.0.1:9", "m", "{completion}", retries=0), "a")


def test_no_more_requests_run_at_once_than_allowed(server):
    server.pause = 0.05
    asked(Judge(server.url, "m", "{completion}", concurrency=2), *(str(10**i) for i in range(6)))
    assert server.most == 2


def test_what_was_answered_is_kept_when_another_fails(server):
    judge = Judge(server.url, "m", "{completion}", retries=0)
    with pytest.raises(ValueError, match="the judge's answer has no number: 'no idea'"):
        asked(judge, "a", "silent")
    assert asked(judge, "a") == [1.0]
    assert len(server.requests) == 2


def test_a_conversation_is_shown_as_lines(server):
    async def ask():
        prompt = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
        return await Judge(server.url, "m", "{prompt}|{completion}")(
            prompts=[prompt], completions=[[{"role": "assistant", "content": "hello"}]]
        )

    asyncio.run(ask())
    assert server.requests[0]["messages"][0]["content"] == "system: be kind\nuser: hi|hello"


def test_it_works_as_a_reward_function_in_its_process(server, tmp_path):
    path = tmp_path / "rewards.py"
    path.write_text(
        "from taut import Judge\n"
        f"judge = Judge({server.url!r}, 'm', '{{completion}}', parse=lambda text: float(text[6:-1]) / 10, retries=0)\n"
    )
    scorer = FunctionScorer("judge", f"{path}:judge")
    scorer.check([])
    prompt = Prompt(0, "p", (1,))
    replies = [
        Rollout(prompt, i, (1,), text, np.zeros(1, np.float32), "stop")
        for i, text in enumerate(("a", "bb", "silent"))
    ]
    scores = scorer.score(replies)
    assert [score.reward for score in scores[:2]] == [0.1, 0.2]
    assert "ValueError" in scores[2].failures["judge"]


@pytest.mark.parametrize(("answer", "number"), [("7", 7.0), ("2 of 10: -1.5", -1.5), ("Score: 3/4", 4.0)])
def test_the_last_number_counts(answer, number):
    assert last_number(answer) == number
