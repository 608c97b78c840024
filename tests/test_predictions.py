import json
import math

import pytest

from seq2seq.comparison.predictions import Rung, read_rungs
from seq2seq.errors import UserError


def written(folder, content):
    file = folder / "rungs.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def test_rungs_are_read_by_label(tmp_path):
    entry = {"compared_with": "a", "prediction": "worth 2", "set": "test", "metric": "bleu", "at_least": 2}
    found = read_rungs(written(tmp_path, {"a": {}, "b": {**entry, "trials": 12}}))
    assert found == {"a": Rung(), "b": Rung("a", "worth 2", "test", "bleu", 2, None, 12)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ([], "must hold an object of objects"),
        ({"a": 1}, "must hold an object of objects"),
        ({"a": {"than": "b"}}, "there is no 'than'"),
        ({"a": {"at_least": "2"}}, "at_least is '2', which is not of its kind"),
        ({"a": {"trials": True}}, "trials is True, which is not of its kind"),
        ({"a": {"prediction": "x", "metric": "bleu"}}, "needs metric, and at_least or at_most"),
        ({"a": {"prediction": "x", "at_most": 1}}, "needs metric, and at_least or at_most"),
        ({"a": {"metric": "bleu", "at_most": 1}}, "at_least and at_most need a prediction"),
        ({"a": {"prediction": "x", "metric": "bleu", "at_most": 10**400}}, "must be numbers from -1000 to 1000"),
        ({"a": {"prediction": "x", "metric": "bleu", "at_most": math.nan}}, "must be numbers from -1000 to 1000"),
        ({"a": {"prediction": "x", "metric": "bleu", "at_least": 2, "at_most": 1}}, "at_least is more than at_most"),
        ({"a": {"trials": 0}}, "trials is 0; it must be at least 1"),
        ({"a": {"compared_with": "a"}}, "compared_with is the label itself"),
        ({"a": {"metric": "bleurt"}}, "metric 'bleurt' is not one of bleu"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path, content, message):
    with pytest.raises(UserError, match=message):
        read_rungs(written(tmp_path, content))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*rungs\.json"):
        read_rungs(tmp_path / "rungs.json")
