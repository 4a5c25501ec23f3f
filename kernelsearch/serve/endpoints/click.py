"""Clicks on shown lists, for the click log: `/v1/{index}/click`."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.errors import JSON_TYPE
from kernelsearch.serve.gate import Refused
from kernelsearch.serve.recording import LogSize
from kernelsearch.serve.routes import declare, validated_body
from kernelsearch.serve.service import Service


class Click(BaseModel):
    """A shown list and a click on one of its documents; no data about the person or the machine."""

    model_config = ConfigDict(extra="forbid", strict=True)

    impression: str = Field(pattern=r"^[0-9A-Za-z_-]{40}$", description="the token that came with the list")
    query: str = Field(min_length=1)
    docids: list[str] = Field(
        min_length=1, max_length=100, description="the list that the token came with, best first; its first 100 documents"
    )
    clicked: str | None = Field(None, description="the docid that was clicked; null for a list without a click")


class ClickAnswer(TypedDict):
    """The outcome of recording a click."""

    recorded: Annotated[bool, Field(description="false for a click that is in the log already")]
    clicks: LogSize


def record(served: ServedIndex, service: Service, click: Click, client: str) -> ClickAnswer:
    """Adds a `click` of the `client` with this address; raises Refused for one on a list that this server has not sent."""
    limits = service.settings.limits
    if not click.query.strip() or len(click.query) > limits.query:
        raise Refused(400, f"query: between 1 and {limits.query} characters are expected")
    if len(set(click.docids)) < len(click.docids):
        raise Refused(400, "docids: a document is listed twice")
    if click.clicked is not None and click.clicked not in click.docids:
        raise Refused(400, "clicked: not among the docids")
    for docid, row in zip(click.docids, served.index.forward.rows_of(click.docids).tolist(), strict=True):
        if row < 0:
            raise Refused(400, f"docids: {docid[:100]!r} is not in {served.name}")
    service.impressions.check(click.impression, served.name, click.query, click.docids)
    if not service.click_rates.take(client):
        raise Refused(429, f"more than {limits.clicks_per_minute} clicks per minute; try again later")
    recorded = served.clicks.record(click.impression, click.query, click.docids, click.clicked)
    if recorded and click.clicked is not None:
        service.metrics.clicks.inc()
    totals = served.clicks.totals()
    assert totals is not None  # there is a log: it has been written to
    return {"recorded": recorded, "clicks": totals}


def add(app: FastAPI, service: Service) -> None:
    """Adds the route."""
    schema = Click.model_json_schema()
    schema["properties"]["query"]["maxLength"] = service.settings.limits.query

    @app.post("/v1/{index}/click", **declare(ClickAnswer, body=schema))
    async def record_click(request: Request) -> Response:
        """Adds a shown list and a click to the click log; needs a server that was started with --record-clicks."""
        name = request.path_params["index"]
        if not service.index(name).clicks.recording:
            raise Refused(403, "clicks are not recorded: the server was started without --record-clicks")
        click = await validated_body(request, Click)
        client = request.client.host if request.client is not None else ""
        return Response(await service.answer(name, record, service, click, client), media_type=JSON_TYPE)
