from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec import load
from spec.errors import OverBudget, RecipeError
from spec.layout import LayoutShape
from spec.recipe import Campaign, Client, Cluster, Engine, Grid, Workload

CAMPAIGN = """\
name: try
title: "A try"
budget_usd: 1.00
lifetime_s: 1800
cluster: local-2
model: smollm2
engine:
  name: llamacpp
workload: chat-tiny
sweep:
  - layout: [DP2xTP1]
    gateway: [none, nginx]
    concurrency: [1, 4]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return tmp_path / "try.yaml"


def refused(recipe: Path, text: str | bytes) -> str:
    """What the loader says of a campaign with this text, without the folder."""
    recipe.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(RecipeError) as caught:
        load.campaign(recipe)
    return str(caught.value).replace(f"{recipe.parent}/", "")


@pytest.mark.parametrize("path", sorted((load.RECIPES / "campaigns").iterdir()), ids=lambda path: path.stem)
def test_every_campaign_loads(path: Path) -> None:
    assert load.campaign(path).cells()


@pytest.mark.parametrize("path", sorted((load.RECIPES / "clusters").iterdir()), ids=lambda path: path.stem)
def test_every_cluster_loads_and_can_be_priced(path: Path) -> None:
    cluster = load.cluster(path)
    assert cluster.name == path.stem
    assert load.price(cluster.cloud, cluster.node_type).usd_per_hour >= 0
    assert load.gpu(cluster.gpu).stand_in == cluster.stand_in


@pytest.mark.parametrize("path", sorted((load.RECIPES / "models").iterdir()), ids=lambda path: path.stem)
def test_every_model_loads(path: Path) -> None:
    assert load.model(path.stem).name == path.stem


@pytest.mark.parametrize("path", sorted((load.RECIPES / "gpus").iterdir()), ids=lambda path: path.stem)
def test_every_gpu_loads(path: Path) -> None:
    assert load.gpu(path.stem).name == path.stem


@pytest.mark.parametrize("path", sorted((load.RECIPES / "calibration").iterdir()), ids=lambda path: path.stem)
def test_every_calibration_loads(path: Path) -> None:
    engine, model, gpu = path.stem.split("-")
    found = load.calibration(engine, model, gpu)
    assert found is not None
    assert (found.engine, found.model, found.gpu) == (engine, model, gpu)


def test_default_campaign_has_six_cells_over_two_layouts_and_two_gateways() -> None:
    cells = load.campaign(load.RECIPES / "campaigns" / "local.yaml").cells()
    assert len(cells) == 6
    assert {str(cell.layout) for cell in cells} == {"DP2xTP1", "DP1xTP2"}
    assert {cell.gateway for cell in cells} == {"none", "nginx"}
    assert {cell.concurrency for cell in cells} == {1, 4}


def test_cluster_of_a_campaign() -> None:
    from_campaign = load.cluster(load.RECIPES / "campaigns" / "local.yaml")
    assert from_campaign == load.cluster(load.RECIPES / "clusters" / "local-2.yaml")


def test_named_cluster_beside_the_campaign_comes_first(tmp_path: Path) -> None:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "clusters").mkdir()
    text = (load.RECIPES / "clusters" / "local-2.yaml").read_text()
    (tmp_path / "clusters" / "local-2.yaml").write_text(text.replace("nodes: 2", "nodes: 3"))
    (tmp_path / "campaigns" / "try.yaml").write_text(CAMPAIGN)
    assert load.campaign(tmp_path / "campaigns" / "try.yaml").cluster.nodes == 3


def test_budget_from_the_command_takes_the_place_of_the_recipes(recipe: Path) -> None:
    recipe.write_text(CAMPAIGN)
    assert load.campaign(recipe).budget_usd == Decimal("1.00")
    assert load.campaign(recipe, Decimal("2.5")).budget_usd == Decimal("2.5")


def test_recipe_without_a_budget_is_over_budget(recipe: Path) -> None:
    recipe.write_text(CAMPAIGN.replace("budget_usd: 1.00\n", ""))
    with pytest.raises(OverBudget, match="budget_usd is missing; add it, or give --budget USD"):
        load.campaign(recipe)
    assert load.campaign(recipe, Decimal(3)).budget_usd == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("budget_usd", "budgt_usd", "3:1: budgt_usd: unknown key 'budgt_usd'; did you mean 'budget_usd'?"),
        (
            "lifetime_s: 1800",
            "lifetime_m: 30",
            "4:1: lifetime_m: unknown key 'lifetime_m'; units live in names: use lifetime_s",
        ),
        (
            "lifetime_s: 1800",
            "lifetime_h: 1",
            "4:1: lifetime_h: unknown key 'lifetime_h'; units live in names: use lifetime_s",
        ),
        ("lifetime_s: 1800", "lifetime_s: 30m", "4:13: lifetime_s: '30m' must be a number, without quotes"),
        ("lifetime_s: 1800", "lifetime_s: 0", "4:13: lifetime_s: 0.0 must be above 0"),
        ("lifetime_s: 1800", "lifetime_s: .inf", "4:13: lifetime_s: '.inf' must be a number, without quotes"),
        ("lifetime_s: 1800", "lifetime_s: 1e999", "4:13: lifetime_s: inf must be a finite number"),
        ("lifetime_s: 1800\n", "", "1:1: lifetime_s: is missing; add it"),
        ("1.00", "-1", "3:13: budget_usd: -1 must be above 0"),
        ("1.00", "1e30", "3:13: budget_usd: 1E+30 is more than a budget can be; give at most 1000000000000"),
        ("1.00", "1 EUR", "3:13: budget_usd: '1 EUR' is not an amount of dollars"),
        ("1.00", "yes", "3:13: budget_usd: 'yes' is not an amount of dollars"),
        ('title: "A try"', "title: 5", "2:8: title: 5 must be text; put it in quotes"),
        (
            "name: try",
            "name: Try It",
            "1:7: name: 'Try It' must be lower-case letters, digits, dots and dashes, at most 63",
        ),
        (
            "  name: llamacpp",
            "  name: llamacpp\n  prefix_cache: yes",
            "9:17: engine.prefix_cache: 'yes' must be true or false (yes, no, on and off are text)",
        ),
        (
            "  name: llamacpp",
            "  name: llamacpp\n  slots: 2.5",
            "9:10: engine.slots: 2.5 must be a whole number, without quotes",
        ),
        ("[1, 4]", "[]", "13:18: sweep.0.concurrency: [] is empty; give at least 1"),
        ("[1, 4]", "4", "13:18: sweep.0.concurrency: 4 must be a list, such as [a, b]"),
        ("[1, 4]", "[1, 1]", "11:5: sweep.0: cell DP2xTP1-none-c1-r1 stands twice; remove one"),
        ("[1, 4]", "[1, -4]", "13:22: sweep.0.concurrency.1: -4 must be above 0"),
        ("DP2xTP1", "TP2", "11:14: sweep.0.layout.0: 'TP2' is not a layout; write it like DP4xTP2"),
        (
            "DP2xTP1",
            "DP2xTP4",
            "11:14: sweep.0.layout.0: layout DP2xTP4 needs 4 GPUs on one node, the largest has 2; lower TP or PP",
        ),
        (
            "DP2xTP1",
            "DP9",
            (
                "11:14: sweep.0.layout.0: layout DP9xTP1 needs room for 9 replicas, 2 nodes with 4 GPUs hold 4; "
                "lower DP or add nodes"
            ),
        ),
        (
            "cluster: local-2",
            "cluster: local-22",
            (
                "5:10: no 'local-22' in recipes/clusters; did you mean 'local-2'? there are local-2, local-4, "
                "local-64, ssh-2"
            ),
        ),
        (
            "cluster: local-2",
            "cluster: ../gpus/cpu",
            "5:10: no '../gpus/cpu' in recipes/clusters; there are local-2, local-4, local-64, ssh-2",
        ),
        (
            "model: smollm2",
            "model: smolm2",
            "6:8: no 'smolm2' in recipes/models; did you mean 'smollm2'? there are smollm2",
        ),
        (
            "workload: chat-tiny",
            "workload: 7",
            "9:11: workload: 7 must be a group of keys, one a line, indented below it",
        ),
        ("name: try", "name: try\nname: again", "2:1: key 'name' stands twice (first on line 1); remove one"),
        ("name: try", "name: &a try", "1:7: anchors (&) and aliases (*) are not used in recipes; write the value out"),
        ("name: try", "name: !!str try", "1:7: tag tag:yaml.org,2002:str is not used in recipes; quote text instead"),
        ("sweep:", "---\nsweep:", "10:1: a second document begins; keep one document a file"),
        ("name: try", "name: [try", "2:6: not YAML: expected ',' or ']', but got ':'"),
    ],
)
def test_mistake_is_told_with_place_value_and_way_out(recipe: Path, old: str, new: str, said: str) -> None:
    assert old in CAMPAIGN
    assert refused(recipe, CAMPAIGN.replace(old, new)) == f"try.yaml:{said}"


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(recipe: Path) -> None:
    text = CAMPAIGN.replace("1800", "long").replace("[none, nginx]", "none").replace("1.00", "-1")
    lines = refused(recipe, text).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["budget_usd", "lifetime_s", "sweep.0.gateway"]


def test_mistake_in_a_named_cluster_is_told_at_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "clusters").mkdir()
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "clusters" / "mine.yaml").write_text("name: mine\nnodez: 2\n")
    recipe = tmp_path / "campaigns" / "try.yaml"
    assert "clusters/mine.yaml:2:1: nodez: unknown key" in refused(recipe, CAMPAIGN.replace("local-2", "mine"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "try.yaml: the file is empty; copy one from recipes/ and edit it"),
        (b"# nothing\n", "try.yaml: the file is empty; copy one from recipes/ and edit it"),
        (b"name: a\ntitle: caf\xe9\n", "try.yaml:2:1: not UTF-8 (byte 0xe9); save it as UTF-8"),
        (b"a: 1\n" * 300_000, "try.yaml: larger than 1048576 bytes, which is no recipe; check the path"),
        (b"7\n", "try.yaml:1:1: the file: 7 must be a group of keys, one a line, indented below it"),
        (b"\x00", "try.yaml: not YAML: unacceptable character #x0000: special characters are not allowed"),
        (b"[" * 2000, "try.yaml:1:34: nested deeper than 32 levels"),
        (b"a: " + b"9" * 5000, "try.yaml:1:4: a number of 5000 digits is too long"),
    ],
)
def test_file_that_is_no_recipe(recipe: Path, data: bytes, said: str) -> None:
    assert refused(recipe, data).startswith(said)


def test_folder_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is a folder; name a file in it"):
        load.campaign(tmp_path)
    with pytest.raises(RecipeError, match="cannot be read: No such file or directory"):
        load.campaign(tmp_path / "missing.yaml")
    with pytest.raises(RecipeError, match="larger than 1048576 bytes"):
        load.campaign(Path("/dev/zero"))
    with pytest.raises(RecipeError, match="cannot be read"):
        load.campaign(tmp_path / "a\0b")


def test_unknown_price() -> None:
    with pytest.raises(
        RecipeError, match=r"no price for node type 'cpu-9' of cloud 'local'; local.yaml has cpu-1, cpu-2"
    ):
        load.price("local", "cpu-9")
    with pytest.raises(RecipeError, match="no 'moon' in recipes/prices"):
        load.price("moon", "cpu-1")


def test_negative_price(tmp_path: Path) -> None:
    path = tmp_path / "cheap.yaml"
    path.write_text((load.RECIPES / "clusters" / "local-2.yaml").read_text().replace("0.20", "-0.20"))
    with pytest.raises(RecipeError, match="max_usd_per_hour: -0.2 must be 0 or more"):
        load.cluster(path)


def test_ssh_cluster_takes_a_host_for_each_node(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text((load.RECIPES / "clusters" / "ssh-2.yaml").read_text().replace("nodes: 2", "nodes: 3"))
    with pytest.raises(RecipeError, match="hosts: 2 hosts, but cloud ssh with 3 nodes takes 3"):
        load.cluster(path)


def test_more_in_flight_than_requests(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(CAMPAIGN.replace("concurrency: [1, 4]", "concurrency: [1, 64]"))
    with pytest.raises(RecipeError, match=r"concurrency.*64 in flight, but workload chat-tiny has 16 requests"):
        load.campaign(path)


def test_more_cells_than_an_evening_holds(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(CAMPAIGN + "\nrepeats: 1000000000\n")
    with pytest.raises(RecipeError, match=r"sweep: \d+ cells with all repeats, more than 1000"):
        load.campaign(path)


def test_a_cluster_where_a_campaign_is_wanted() -> None:
    with pytest.raises(RecipeError, match=r"local-2.yaml: is the recipe of a cluster, not of a campaign"):
        load.campaign(load.RECIPES / "clusters" / "local-2.yaml")


def test_inventory_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_text('{"version": 1, "run": "r", "nodes": 5}')
    with pytest.raises(RecipeError, match="not an inventory: nodes: Input should be"):
        load.inventory(path)
    path.write_text('{"version": 1, "run": "r", "nodes": []}')
    assert load.inventory(path).run == "r"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_recipe_or_a_recipe_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    with pytest.raises(RecipeError):
        load.campaign(path)


@given(st.data())
def test_any_edit_of_a_recipe_loads_or_is_a_recipe_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    start = data.draw(st.integers(0, len(CAMPAIGN)))
    end = data.draw(st.integers(start, min(len(CAMPAIGN), start + 20)))
    middle = data.draw(st.text(st.sampled_from("ab1-:[]{}&*!#|>'\"\\ \n\t,?%@`~.e+x0"), max_size=8))
    path.write_text(CAMPAIGN[:start] + middle + CAMPAIGN[end:])
    with contextlib.suppress(RecipeError, OverBudget):
        assert load.campaign(path).cells()


names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30) | st.sampled_from(
    ["010", "yes", "1e3", "0o7", "null", "~", "", "1:30:00", " a: b", "- x", "#", "2026-11-30", "'", "é\n"]
)
counts = st.integers(1, 9999)
money = st.decimals("0.01", "1000000", places=4)
campaigns = st.builds(
    Campaign,
    version=st.just(1),
    name=names,
    title=texts,
    budget_usd=money,
    lifetime_s=st.floats(1e-3, 1e9),
    cluster=st.builds(
        Cluster,
        version=st.just(1),
        name=names,
        cloud=st.just("local"),
        gpu=st.just("cpu"),
        node_type=names,
        nodes=st.integers(1, 9),
        gpus_per_node=st.integers(1, 8),
        stand_in=st.sampled_from(["cpu", None]),
        regions=st.lists(names, max_size=2).map(tuple),
        max_usd_per_hour=st.none() | money,
        hosts=st.just(()),
    ),
    model=st.just("smollm2"),
    engine=st.builds(Engine, name=names, speculation=texts, slots=counts, context_tokens=counts),
    workload=st.builds(
        Workload,
        name=names,
        isl_tokens=st.integers(9, 999),
        osl_tokens=counts,
        requests=st.integers(999, 9999),
        warmup_requests=counts,
        shared_prefix_tokens=st.integers(0, 8),
        seed=counts,
    ),
    sweep=st.builds(
        Grid,
        layout=st.just((LayoutShape(dp=1),)),
        gateway=st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
        concurrency=st.lists(st.integers(1, 999), min_size=1, max_size=3, unique=True).map(tuple),
    ).map(lambda grid: (grid,)),
    repeats=st.integers(1, 3),
    client=st.builds(Client, on=st.sampled_from(["node", "own"]), count=st.integers(1, 3)),
    smoke_floor_share=st.floats(0.001, 1),
)


@given(campaigns)
def test_dumped_recipe_loads_as_the_same(tmp_path_factory: pytest.TempPathFactory, campaign: Campaign) -> None:
    path = tmp_path_factory.getbasetemp() / "dumped.yaml"
    path.write_text(load.dump(campaign))
    assert load.campaign(path) == campaign
