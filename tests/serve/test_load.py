"""Many clients and many requests."""

import asyncio
import gc

import httpx2
import psutil
import pytest
import text_classification_toys
from serving import served

from keras_attn.serve import Limits

TEXTS = [f"a {'great ' * (n % 7)}film {'dull ' * (n % 5)}{n}" for n in range(200)]


@pytest.fixture(scope="module")
def task():
    return text_classification_toys.make("bag")


async def ask(url, texts, at_once):
    """The statuses and answers of requests, so many at once."""
    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=300) as client:
        gate = asyncio.Semaphore(at_once)

        async def one(text):
            async with gate:
                answer = await client.post("/v1/models/m:predict", json={"instances": [text]})
                return answer.status_code, answer.json()

        return await asyncio.gather(*map(one, texts))


@pytest.mark.slow
def test_200_clients_at_once(task):
    expected = [result.probabilities for result in task.predict(TEXTS)]
    with served({"m": task}, Limits(queue_size=256, seconds=120)) as url:
        found = asyncio.run(ask(url, TEXTS, 200))
    assert [status for status, _ in found] == [200] * 200
    for (_, answer), probabilities in zip(found, expected, strict=True):
        assert answer["predictions"][0]["probabilities"] == pytest.approx(probabilities, abs=1e-5)


@pytest.mark.slow
def test_a_small_queue_refuses_and_loses_nothing(task):
    expected = [result.label for result in task.predict(TEXTS)]
    with served({"m": task}, Limits(queue_size=8, seconds=120)) as url:
        found = asyncio.run(ask(url, TEXTS, 200))
    assert {status for status, _ in found} <= {200, 429}
    for (status, answer), label in zip(found, expected, strict=True):
        if status == 200:
            assert answer["predictions"][0]["label"] == label
        else:
            assert "Try again" in answer["error"]


@pytest.mark.by_hand
def test_memory_is_level_over_10_000_requests(task):
    """The second half of them needs at most 10 MB more than the first."""
    process, sizes = psutil.Process(), []
    with served({"m": task}, Limits(seconds=120)) as url:
        for _ in range(10):
            found = asyncio.run(ask(url, TEXTS * 5, 50))
            assert {status for status, _ in found} == {200}
            gc.collect()
            sizes.append(process.memory_info().rss / 1e6)
    print("MB after each 1,000 requests:", [round(size) for size in sizes])
    assert sizes[-1] - sizes[4] < 10
