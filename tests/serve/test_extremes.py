"""Every option that a request may set, at its bounds and far beyond them: an answer or an error of one line, never a 500."""

from __future__ import annotations

import math

import pytest

from kernelsearch.core.options import Option
from kernelsearch.rerankers import registry
from kernelsearch.serve.parameters import first_stage_options, method_options


def extremes(option: Option) -> list[str]:
    if option.kind is bool:
        return ["true", "false"]
    if option.choices is not None:
        return [str(choice) for choice in option.choices]
    bounds = [bound for bound in (option.low, option.high) if bound is not None and math.isfinite(bound)]
    exact = [str(int(bound)) if option.kind is int else repr(float(bound)) for bound in bounds]
    beyond = ["", "auto", "-1", "0", "1e-9", "1e9", "1e300", "inf", "-inf", "nan", "99999999999999999999"]
    return [*exact, *beyond, *(",".join([value] * 2) for value in beyond if option.many)]


CASES = [("", option) for option in first_stage_options()] + [
    (name, option) for name in registry.names() for option in method_options(name)
]


@pytest.mark.parametrize(("method", "option"), CASES, ids=[f"{method}.{option.name}" for method, option in CASES])
def test_extreme_values_are_answered_or_refused(client, method, option):
    name = f"{method}.{option.name}" if method else option.name
    for value in extremes(option):
        parameters = {"query": "dripping tap", "candidates": "20", name: value}
        if method:
            parameters["rerank"] = method
        elif option.name.startswith(("rm3-", "rocchio-")):
            parameters[option.name.partition("-")[0]] = "true"
        answer = client.get("/v1/demo/search", params=parameters)
        assert answer.status_code in (200, 400, 409), (value, answer.text)
        if answer.status_code == 200:
            assert all(math.isfinite(entry["score"]) for entry in answer.json()["candidates"])
