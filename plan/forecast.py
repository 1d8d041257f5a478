"""What a cell will probably do: arithmetic over measured speeds, with a wide interval and the source named."""

from __future__ import annotations

from collections.abc import Sequence

from spec import load
from spec.layout import LayoutShape
from spec.recipe import BatchGain, Calibration, Campaign, Speed
from spec.record import Forecast


def forecast(campaign: Campaign, layout: LayoutShape, concurrency: int) -> Forecast:
    """Output tokens a second of the whole layout. All zero, and said so, where nothing was measured."""
    engine, gpu = campaign.engine.name, campaign.cluster.gpu
    table = load.calibration(engine, campaign.model, gpu)
    speed = next((row for row in table.speeds if row.tp == layout.tp), None) if table else None
    if table is None or speed is None:
        missing = f"{campaign.model} in {engine} on {gpu} with TP{layout.tp}"
        return Forecast(output_tok_per_s=0.0, low=0.0, high=0.0, source=f"no forecast: nothing measured for {missing}")
    rate = _rate(campaign, table, speed, layout.dp, concurrency)
    low, high = rate * table.low_share, rate * table.high_share
    return Forecast(output_tok_per_s=rate, low=low, high=high, source=f"from speeds measured on {table.source}")


def _rate(campaign: Campaign, table: Calibration, speed: Speed, replicas: int, concurrency: int) -> float:
    """Replicas at work x OSL / (time to read a prompt + to write an answer); several are written faster together."""
    workload, busy = campaign.workload, min(replicas, concurrency)
    in_flight = min(concurrency / busy, campaign.engine.slots)
    cached = workload.shared_prefix_tokens if campaign.engine.prefix_cache else 0
    read_s = (workload.isl_tokens - cached) / speed.prefill_tok_per_s
    write_s = workload.osl_tokens / (speed.decode_tok_per_s * _gain(table.gains, in_flight))
    return busy * workload.osl_tokens / (read_s + write_s)


def _gain(gains: Sequence[BatchGain], in_flight: float) -> float:
    """Along straight lines between the measured points; the last one beyond them."""
    below = gains[0]
    for point in gains:
        if point.in_flight >= in_flight:
            share = (in_flight - below.in_flight) / max(point.in_flight - below.in_flight, 1)
            return below.gain + max(share, 0.0) * (point.gain - below.gain)
        below = point
    return below.gain
