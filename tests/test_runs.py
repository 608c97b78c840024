"""Which finished runs may stand in one row or one table."""

import pytest
from test_comparison import REFERENCES, write_run

from seq2seq.comparison.compare import compare
from seq2seq.comparison.speed import keep_speed
from seq2seq.errors import UserError

SPEED = {"sentences_per_second": 9.0, "milliseconds_per_sentence": 200.0, "device": "cpu", "beam_size": 5}


@pytest.fixture
def seeds(tmp_path):
    return [write_run(tmp_path / str(seed), "same", REFERENCES, seed=seed, precision="float32") for seed in (1, 2)]


def test_seeds_on_another_number_of_devices_made_other_updates(seeds):
    for run, devices in zip(seeds, (1, 2), strict=True):
        run.settings["trainer"] = {"devices": devices, "accelerator": "cpu"}
    with pytest.raises(UserError, match=r"both 'same' but differ in trainer\.devices"):
        compare(seeds)


def test_seeds_trained_in_another_number_format_are_refused_though_both_said_auto(seeds):
    assert compare(seeds)["rows"]["same"]["seeds"] == [1, 2]
    seeds[1].metrics["precision"] = "bf16_mixed"
    with pytest.raises(UserError, match=r"differ in the number format of training \(float32 and bf16_mixed\)"):
        compare(seeds)
    del seeds[1].metrics["precision"]  # of before it was kept
    assert compare(seeds)["rows"]["same"]["seeds"] == [1, 2]


def test_speeds_measured_in_different_ways_are_left_out_and_that_is_said(seeds, caplog):
    for run in seeds:
        keep_speed(run.folder, SPEED)
    assert compare(seeds)["rows"]["same"]["sentences_per_second"]["mean"] == 9.0
    keep_speed(seeds[1].folder, {**SPEED, "device": "cuda"})
    assert compare(seeds)["rows"]["same"]["sentences_per_second"] is None
    files = [run.folder / "speed.json" for run in seeds]
    assert caplog.messages[-1].startswith(
        f"speeds are left out: device of {files[1]} is cuda, that of {files[0]} is cpu"
    )
