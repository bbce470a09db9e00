"""Draws the panels of the dashboard from a Prometheus' answers."""

import re
import time

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.ticker import EngFormatter, PercentFormatter

COLUMNS = 3
FORMATS = {
    "s": EngFormatter("s"),
    "bytes": EngFormatter("B"),
    "percentunit": PercentFormatter(1.0),
    "reqps": EngFormatter("/s"),
    "cps": EngFormatter("/s"),
    "ops": EngFormatter("/s"),
}


def legend(template, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), template)


def dashboard(queries, get, began, path):
    """Draws all graphs since `began` into an SVG file."""
    panels = {}
    for panel, template, query in queries:
        if panel["type"] == "timeseries":
            panels.setdefault(panel["id"], (panel, []))[1].append((template, query))
    pyplot.rcParams.update({"font.size": 7, "svg.fonttype": "none", "svg.hashsalt": "evenkeel"})
    rows = -(-len(panels) // COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(12, 1.9 * rows), layout="constrained")
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, (panel, targets) in zip(axes.flat, panels.values()):
        axis.set_title(panel["title"], fontsize=8)
        for template, query in targets:
            answer = get("query_range", query=query, start=began, end=time.time(), step=1)
            for series in answer["result"]:
                times = [float(at) - began for at, _ in series["values"]]
                values = [float(value) for _, value in series["values"]]
                axis.plot(times, values, linewidth=0.9, label=legend(template, series["metric"]))
        unit = panel["fieldConfig"]["defaults"]["unit"]
        axis.yaxis.set_major_formatter(FORMATS.get(unit, EngFormatter()))
        axis.set_ylim(bottom=0)
        axis.grid(linewidth=0.3)
        axis.legend(fontsize=5, ncols=2, loc="upper left", framealpha=0.6)
        axis.xaxis.set_major_formatter(EngFormatter("s"))
    figure.savefig(path, metadata={"Date": None})
