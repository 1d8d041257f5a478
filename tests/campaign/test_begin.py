from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path

import pytest

from campaign import phases
from campaign.begin import Wish, begin, from_wish, recipe_path
from spec import load
from spec.errors import MegatokError, OverBudget, RecipeError

WISH = Wish(
    cloud="local",
    model="smollm2",
    engine="llamacpp",
    gpu=None,
    dp=2,
    tp=1,
    speculation="none",
    prefix_cache=True,
    gateway="nginx",
    budget_usd=Decimal(1),
    hours=0.1,
)


@pytest.mark.parametrize(("dp", "tp", "nodes"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (1, 2, 1), (2, 2, 2), (5, 1, 3)])
def test_a_wish_gets_the_fewest_nodes_that_hold_it(dp: int, tp: int, nodes: int) -> None:
    campaign = from_wish(dataclasses.replace(WISH, dp=dp, tp=tp))
    assert campaign.cluster.nodes == nodes
    assert [str(cell) for cell in campaign.cells()] == [f"DP{dp}xTP{tp}-nginx-c1-r1"]
    assert phases.planned(campaign).boots


def test_a_wish_as_a_campaign_is_a_recipe_like_any_other(tmp_path: Path) -> None:
    campaign = from_wish(WISH)
    (tmp_path / "deploy.yaml").write_text(load.dump(campaign))
    assert load.campaign(tmp_path / "deploy.yaml") == campaign
    assert campaign.lifetime_s == 360
    assert campaign.engine.prefix_cache


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cloud": "moon"}, "unknown cloud 'moon'; there are local, ssh"),
        ({"model": "gpt"}, "no 'gpt' in recipes/models; there are smollm2"),
        ({"engine": "vlmm"}, "unknown engine 'vlmm'; there are llamacpp"),
        ({"gateway": "apache"}, "unknown gateway 'apache'; there are none, nginx"),
        ({"gpu": "b300"}, "no cluster recipe for cloud local with GPU b300; write one in recipes/clusters/"),
        ({"tp": 3}, "--tp 3 needs a node of 3 GPUs; on cloud local a node has up to 2; lower --tp"),
    ],
)
def test_a_wish_that_cannot_be_had(change: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        from_wish(dataclasses.replace(WISH, **change))  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_the_worst_case_must_fit_the_budget() -> None:
    phases.affordable(phases.planned(from_wish(WISH)))
    dear = from_wish(dataclasses.replace(WISH, budget_usd=Decimal("0.0199")))
    with pytest.raises(OverBudget, match=r"\$0.0208, is above its budget of \$0.0199, which buys each node \d+ s"):
        phases.affordable(phases.planned(dear))


def test_a_recipe_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipe_path("local") == load.RECIPES / "campaigns" / "local.yaml"
    (tmp_path / "local").touch()
    assert recipe_path("local") == Path("local")
    assert recipe_path("a/local") == Path("a/local")


def test_a_ledger_that_cannot_be_read_refuses_a_new_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEGATOK_HOME", str(tmp_path))
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "ledger.jsonl").write_text('{"version": 99}\n')
    with pytest.raises(MegatokError, match="of version 99, this program reads up to"):
        begin(phases.planned(from_wish(WISH)), name="new")
    assert not (tmp_path / "runs" / "new").exists()
