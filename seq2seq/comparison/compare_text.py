"""What `compare` found, as Markdown."""

from collections.abc import Callable, Mapping
from typing import Any

from seq2seq.report import markdown_table

_DASH = "-"
_SCORES = {"bleu": "BLEU", "chrf": "chrF", "exact_match": "exact match, %"}


def comparison_text(found: Mapping[str, Any]) -> str:
    """Return tables under headings; a row a label, in the same order everywhere."""
    rows = found["rows"]
    parts = [
        *_scores(found),
        *_differences(found),
        *_lengths(found),
        *_budgets(found),
        *_cost(found),
        *_test_sets(rows),
        *_predictions(found),
    ]
    return "\n".join(parts) + "\n"


def _scores(found: Mapping[str, Any]) -> list[str]:
    def cells(row: Mapping[str, Any]) -> list[str]:
        aer = (_mean(row["aer"][step], 3) for step in ("step_t", "step_t_plus_1"))
        return [
            str(len(row["seeds"])),
            *(_mean(row["bleu"], 2), _mean(row["chrf"], 2), _mean(row["exact_match"], 1, 100)),
            *(_mean(row["length_ratio"], 3), _mean(row["cut"], 1, 100), _mean(row["looping"], 1, 100)),
            *aer,
            _mean(row["validation_loss"], 3),
        ]

    table = {label: cells(row) for label, row in found["rows"].items()}
    for label, row in found["baselines"].items():
        scores = (f"{row['bleu']:.2f}", f"{row['chrf']:.2f}", f"{100 * row['exact_match']:.1f}")
        table[label] = [_DASH, *scores, f"{row['length_ratio']:.3f}", *[_DASH] * 5]
    head = (
        "seeds",
        "BLEU",
        "chrF",
        "exact, %",
        "length",
        "cut, %",
        "looping, %",
        "AER t",
        "AER t+1",
        "validation loss",
    )
    return [
        f"## Scores on {found['test_set']}, {found['sentences']} sentences",
        "",
        *markdown_table(head, table),
        "",
        "Mean over seeds ± standard deviation. length: words and punctuation marks, translations to references. cut: "
        "stopped by the length limit. looping: the same 1 to 8 tokens four times in a row. AER: alignment error rate "
        "of attention at step t and after it. validation loss: cross entropy per target token, without label "
        "smoothing.",
        "",
    ]


def _differences(found: Mapping[str, Any]) -> list[str]:
    def cells(difference: Mapping[str, Any]) -> list[str]:
        scales = {"exact_match": 100}
        return [difference["to"], *(_interval(difference[name], scales.get(name, 1)) for name in _SCORES)]

    rows = found["rows"]
    table = {label: cells(row["difference"]) for label, row in rows.items() if row["difference"]}
    absent = [
        f"- {label} is compared with {row['compared_with']}, of which there is no run here."
        for label, row in rows.items()
        if row["compared_with"] and not row["difference"]
    ]
    if not table and not absent:
        return []
    heading = ["## Differences", "", *([*absent, ""] if absent else [])]
    if not table:
        return heading
    return [
        *heading,
        *markdown_table(("to", *_SCORES.values()), table),
        "",
        f"With 95 % intervals: {found['resamples']} resamples of the sentences (the same for both), and Student's t "
        "for the mean over seeds; a row with one seed has an interval for the sentences alone.",
        "",
    ]


def _lengths(found: Mapping[str, Any]) -> list[str]:
    bins = found["sentences_by_length"]
    rows = {**found["rows"], **found["baselines"]}
    table = {label: [f"{row['bleu_by_length'][name]:.1f}" for name in bins] for label, row in rows.items()}
    heads = [f"{name} ({count})" for name, count in bins.items()]
    return ["## BLEU by words of the source (sentences)", "", *markdown_table(heads, table), ""]


def _budgets(found: Mapping[str, Any]) -> list[str]:
    def cells(row: Mapping[str, Any]) -> list[str]:
        end = row["convergence"]
        return [
            *(_mean(row["equal_tokens"], 2), _mean(row["equal_minutes"], 2), _mean(end["best_bleu"], 2)),
            *(_mean(end["target_tokens"], 2, 1e-6), _mean(end["minutes"], 1), _mean(end["rise_in_last_quarter"], 2)),
            _mean(row["flops_per_target_token"], 2, 1e-6),
        ]

    head = (
        f"at {found['equal_tokens'] / 1e6:.2f} M target tokens",
        f"at {found['equal_minutes']:.1f} minutes",
        *("best", "M target tokens until then", "minutes until then", "rise in the last quarter"),
        "MFLOP a target token",
    )
    return [
        "## Validation BLEU for equal budgets",
        "",
        *markdown_table(head, {label: cells(row) for label, row in found["rows"].items()}),
        "",
        "Greedy translations; between two validations a straight line; the budgets are the largest that every run had. "
        "Where the learning rate falls towards the end of a run, one that is not at its end there is not at its best, "
        "and BLEU rises in the last quarter of the tokens though nothing more is learned: a run has converged where "
        "training longer gives no more. MFLOP: forward and backward.",
        "",
    ]


def _cost(found: Mapping[str, Any]) -> list[str]:
    rows = found["rows"]

    def cells(row: Mapping[str, Any]) -> list[str]:
        return [
            *(_millions(row["parameters"]), _millions(row["parameters_non_embedding"])),
            *(_mean(row["updates"], 0), _mean(row["target_tokens_seen"], 2, 1e-6), _mean(row["train_minutes"], 1)),
            *(_mean(row["flops_per_target_token"], 2, 1e-6), _mean(row["peak_memory_bytes"], 0, 2**-20)),
            *(_mean(row["sentences_per_second"], 1), _mean(row["milliseconds_per_sentence"], 1)),
            _DASH if row["trials"] is None else str(row["trials"]),
        ]

    head = (
        *("parameters, M", "without embeddings, M", "updates", "target tokens, M", "minutes", "MFLOP a target token"),
        *("peak memory, MiB", "sentences/s at batch 64", "ms for one sentence", "trials"),
    )
    machines = {label: "; ".join(map(_machine, row["machines"])) or "unknown" for label, row in rows.items()}
    if len(set(machines.values())) == 1:
        hardware = [f"Trained on {next(iter(machines.values()))}."]
    else:
        hardware = ["Trained on different machines, so minutes do not compare:"]
        hardware += ["", *(f"- {label}: {machine}" for label, machine in machines.items())]
    return [
        "## Size and cost",
        "",
        *markdown_table(head, {label: cells(row) for label, row in rows.items()}),
        "",
        "Speeds are of the seeds that `seq2seq speed` has measured.",
        "",
        *hardware,
        "",
        f"Settings that rows share and have different values of: {', '.join(found['rows_differ_in']) or 'none'}.",
        "",
    ]


def _machine(machine: Mapping[str, Any]) -> str:
    threads = f"{machine['threads']} CPU thread{'' if machine['threads'] == 1 else 's'}"
    return f"{', '.join(machine['gpus']) or machine['cpu']}, {threads}, {machine['system']}"


def _test_sets(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows.values() for name in row["tests"]))
    if len(names) < 2:
        return []

    def cell(scores: Mapping[str, Any] | None) -> str:
        if scores is None or scores["bleu"] is None:
            return _DASH
        return f"{scores['bleu']['mean']:.1f} / {100 * scores['exact_match']['mean']:.0f}"

    table = {name: [cell(row["tests"].get(name)) for row in rows.values()] for name in names}
    return ["## All test sets: BLEU / exact match in %", "", *markdown_table(list(rows), table), ""]


def _predictions(found: Mapping[str, Any]) -> list[str]:
    judged = {label: row["prediction"] for label, row in found["rows"].items() if "prediction" in row}
    absent = found["predictions_not_measured"]
    if not judged and not absent:
        return []

    def cells(it: Mapping[str, Any]) -> list[str]:
        scale = 100 if it["metric"] in ("exact_match", "cut", "looping") else 1
        bounds = (("at least", it["at_least"]), ("at most", it["at_most"]))
        asked = " and ".join(f"{word} {scale * bound:g}" for word, bound in bounds if bound is not None)
        of = f"{it['metric']} on {it['set']}" + (f", to {it['compared_with']}" if it["compared_with"] else "")
        verdict = ("held" if it["held"] else "**failed**") + (", not sure" if it["sure"] is False else "")
        measured = _interval(it["measured"], scale)
        return [it["prediction"], of, asked, measured if it["compared_with"] else measured.replace("+", ""), verdict]

    head = ("prediction", "measure", "predicted", "measured", "")
    table = {label: cells(it) for label, it in judged.items()}
    held = sum(it["held"] for it in judged.values())
    return [
        "## Predictions",
        "",
        *markdown_table(head, table, left=("prediction", "measure", "predicted", "")),
        "",
        f"{held} of {len(judged)} held. Not sure: another verdict lies within the 95 % interval.",
        *(["", f"Not measured, since runs are missing: {', '.join(absent)}."] if absent else []),
        "",
    ]


def _mean(found: Mapping[str, Any] | None, digits: int, scale: float = 1) -> str:
    if found is None:
        return _DASH
    shown: Callable[[float], str] = lambda value: f"{scale * value:,.{digits}f}"  # noqa: E731
    return shown(found["mean"]) + (f" ± {shown(found['spread'])}" if found["spread"] else "")


def _interval(found: Mapping[str, float], scale: float = 1) -> str:
    value = f"{scale * found['value']:+.2f}"
    return f"{value} [{scale * found['low']:+.2f}, {scale * found['high']:+.2f}]" if "low" in found else value


def _millions(number: int | None) -> str:
    return _DASH if number is None else f"{number / 1e6:.2f}"
