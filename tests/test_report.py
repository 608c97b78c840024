from typing import Any

from seq2seq.report import scores_as_text

PLAIN: dict[str, Any] = {
    "sentences": 1000,
    "bleu": 91.234,
    "chrf": 95.5,
    "ter": 101.25,
    "exact_match": 0.618,
    "length_ratio": 0.9876,
    "cut": 0.0,
    "looping": 0.001,
    "signatures": {"bleu": "nrefs:1|tok:13a", "chrf": "nc:6", "ter": "case:lc"},
}
BY = {
    "phenomenon": {"time": {"sentences": 149, "exact_match": 0.75}, "kein": {"sentences": 8, "exact_match": 1.0}},
    "depth": {"0": {"sentences": 608, "exact_match": 0.7}},
    "agreement": {"1": {"sentences": 5, "exact_match": 0.8}, "12": {"sentences": 5, "exact_match": 0.2}},
    "bracket": {},
}
BASELINES = {"diagonal": 0.485, "ibm_model_1": 0.146}


def test_each_test_set_has_a_row_and_the_signatures_follow() -> None:
    lines = scores_as_text({"test_2016_flickr": PLAIN, "b": PLAIN}).splitlines()
    assert [line.split()[0] for line in lines] == ["test", "test_2016_flickr", "b", "bleu:", "chrf:", "ter:"]
    cells = "test_2016_flickr 1000 91.23 95.50 101.25 61.8 % 0.988 0.0 % 0.1 %"
    assert lines[1].split() == cells.split()


def test_what_is_known_besides_is_told() -> None:
    alignment = {
        "aer": {"step_t": 0.321, "step_t_plus_1": 0.054},
        "heads": {"step_t": [0, 0], "step_t_plus_1": [1, 3]},
        "baselines": BASELINES,
    }
    known = {**PLAIN, "exact_match_by": BY, "alignment": alignment}
    text = scores_as_text({"test": known, "agreement": known})
    assert text.splitlines()[1].split()[-4:] == ["0.321", "0.054", "0.485", "0.146"]
    assert "read at t: layer 0, head 0; t+1: layer 1, head 3 (counted from 0)" in text
    assert "time                  75.0 % of 149" in text
    assert "test, exact match in % by depth of embedding: 0:70" in text
    assert "agreement, exact match in % by distance: 1:80 12:20" in text


def test_a_model_without_attention_has_dashes_beside_the_baselines() -> None:
    text = scores_as_text({"test": {**PLAIN, "exact_match_by": BY, "alignment": {"baselines": BASELINES}}})
    assert text.splitlines()[1].split()[-4:] == ["-", "-", "0.485", "0.146"]
    assert "this model has no attention, or none was chosen" in text


def test_no_line_is_wider_than_the_page() -> None:
    alignment = {"baselines": BASELINES}
    names = ("length_21_40_coordination", "agreement")
    far = {str(distance): {"sentences": 500, "exact_match": 1.0} for distance in range(1, 13)}
    known = {**PLAIN, "exact_match_by": {**BY, "agreement": far}, "alignment": alignment}
    text = scores_as_text(dict.fromkeys(names, known))
    assert all(len(line) <= 120 for line in text.splitlines())


def test_no_test_sets_are_no_error() -> None:
    assert scores_as_text({}).splitlines()[0].startswith("test set")
