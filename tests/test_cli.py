import io
import json
import logging
import os
import signal
import subprocess
import sys

import pytest
from conftest import SOURCES, TARGETS, text
from typer.main import get_command

from seq2seq.cli import app, main
from seq2seq.data.gold import Gold
from seq2seq.data.grammar import Tags, part
from seq2seq.data.words import Alignment
from seq2seq.streams import log_to_stderr


@pytest.fixture
def seq2seq(monkeypatch, capsys):
    """Run the command in this process; return exit code, stdout and stderr."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)}
    level = logging.getLogger("seq2seq").level

    def call(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["seq2seq", *map(str, arguments)])
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code or 0, *capsys.readouterr()

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)
    logging.getLogger("seq2seq").setLevel(level)


def assert_refused(outcome, message):
    code, out, err = outcome
    assert (code, out) == (2, "")
    assert err.startswith("seq2seq: error: ")
    assert err.count("\n") == 1
    assert message in err


# ---- translate ----


def test_stdin_is_translated_to_stdout_line_by_line(seq2seq, run):
    lines = [SOURCES[0], "", "   ", "\t", SOURCES[4]]
    expected = text([TARGETS[0], "", "", "", TARGETS[4]])
    assert seq2seq("translate", run, stdin=text(lines)) == (0, expected, "")


def test_a_file_is_translated_into_a_file(seq2seq, run, tmp_path):
    (tmp_path / "in").write_text(text(SOURCES), encoding="utf-8")
    assert seq2seq("translate", run, tmp_path / "in", "-o", tmp_path / "out") == (0, "", "")
    assert (tmp_path / "out").read_bytes() == text(TARGETS).encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_no_lines_in_are_no_lines_out(seq2seq, run):
    assert seq2seq("translate", run, stdin="") == (0, "", "")


def test_a_bundle_can_be_named_in_place_of_its_run(seq2seq, tiny_bundle_folder):
    assert seq2seq("translate", tiny_bundle_folder, stdin=SOURCES[0])[:2] == (0, f"{TARGETS[0]}\n")


def test_scores_stand_before_the_translations(seq2seq, run):
    code, out, _ = seq2seq("translate", run, "--scores", stdin=text([SOURCES[0], ""]))
    (score, translation), blank = out.split("\n")[0].split("\t"), out.split("\n")[1]
    assert (code, translation, blank) == (0, TARGETS[0], "0.0000\t")
    assert -0.1 < float(score) < 0


def test_json_is_one_object_a_line_with_all_numbers(seq2seq, run):
    options = ("--json", "--length-penalty", "0")
    code, out, _ = seq2seq("translate", run, *options, stdin=text([SOURCES[4], ""]))
    first, blank = map(json.loads, out.splitlines())
    assert code == 0
    assert first.keys() == {"text", "log_prob", "score", "cut"}
    assert first["text"] == TARGETS[4]
    assert first["score"] == first["log_prob"] < 0
    assert blank == {"text": "", "log_prob": 0.0, "score": 0.0, "cut": False}
    assert TARGETS[1].split()[1] in seq2seq("translate", run, "--json", stdin=SOURCES[1])[1]  # "großer", not \\u00df


def test_n_best_lists_the_best_first(seq2seq, run):
    _, out, _ = seq2seq("translate", run, "--json", "--n-best", "3", "--beam-size", "4", stdin=SOURCES[0])
    found = json.loads(out)
    assert len(found["n_best"]) == 3
    assert found["n_best"][0]["text"] == found["text"] == TARGETS[0]
    assert sorted(one["score"] for one in found["n_best"])[::-1] == [one["score"] for one in found["n_best"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "2"], "--n-best 2 needs --json"),
        (["--n-best", "9", "--json"], "n_best=9 must be between 1 and the beam size, 5"),
        (["--beam-size", "0"], "search.beam_size=0 must be at least 1"),
        (["--beam-size", "1001"], "search.beam_size=1001 must be at least 1, and at most 1000"),
        (["--length-penalty", "500"], "search.length_penalty=500.0 must be a number of at least 0, and at most 10"),
        (["--length-penalty", "nan"], "search.length_penalty=nan must be"),
        (["--device", "tpu"], "device=tpu is not there"),
        (["-o", "/no/such/folder/out"], "cannot write /no/such/folder/out: No such file"),
    ],
)
def test_impossible_options_are_refused_in_one_line(seq2seq, run, options, message):
    assert_refused(seq2seq("translate", run, *options, stdin="x"), message)


def test_a_wrong_run_is_refused_in_one_line(seq2seq, tmp_path):
    assert_refused(seq2seq("translate", tmp_path / "none", stdin="x"), "none does not exist")
    assert_refused(seq2seq("translate", tmp_path, stdin="x"), "is neither a run folder nor a bundle")


def test_a_byte_that_is_no_text_is_named(seq2seq, run):
    assert_refused(seq2seq("translate", run, stdin=b"ok\ngr\xfcn\n"), "line 2, byte 5")


def test_a_failed_translation_leaves_the_output_as_it_was(seq2seq, run, tmp_path):
    (tmp_path / "out").write_text("old")
    outcome = seq2seq("translate", run, "-o", tmp_path / "out", "--line-buffered", stdin=b"ok\ngr\xfcn\n")
    assert outcome[0] == 2
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "old")]


def test_output_to_a_device_does_not_replace_it(seq2seq, run):
    assert seq2seq("translate", run, "-o", os.devnull, stdin="x")[0] == 0
    assert not os.path.isfile(os.devnull)  # noqa: PTH113


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precision_is_a_choice(seq2seq, run, precision):
    assert seq2seq("translate", run, "--precision", precision, stdin=SOURCES[0])[:2] == (0, f"{TARGETS[0]}\n")


def test_an_exported_model_translates_with_its_engine(seq2seq, run, tmp_path):
    folder = tmp_path / "exported"
    assert seq2seq("export", run, "--format", "ctranslate2", "-o", folder)[0] == 0
    lines = text(SOURCES)
    native = seq2seq("translate", run, "--scores", stdin=lines)
    exported = seq2seq("translate", folder, "--engine", "ctranslate2", "--scores", stdin=lines)
    assert exported == native


def test_the_engine_s_numbers_are_chosen_at_export(seq2seq, run):
    outcome = seq2seq("translate", run, "--engine", "ctranslate2", "--precision", "bfloat16")
    assert_refused(outcome, "--precision bfloat16 needs --engine native; `seq2seq export` has --quantization")


# ---- score ----


@pytest.fixture
def test_set(tmp_path):
    (tmp_path / "src.txt").write_bytes(text(SOURCES).encode())
    (tmp_path / "ref.txt").write_bytes(text([*TARGETS[:5], "Ganz\rwas anderes."]).replace("\n", "\r\n").encode())
    return tmp_path


def test_score_writes_a_log_prob_a_line(seq2seq, run, test_set):
    code, out, _ = seq2seq("score", run, test_set / "src.txt", test_set / "ref.txt")
    log_probs = list(map(float, out.splitlines()))
    assert (code, len(log_probs)) == (0, 6)
    translated = seq2seq("translate", run, "--json", stdin=text(SOURCES))[1].splitlines()
    assert log_probs[:5] == pytest.approx([json.loads(line)["log_prob"] for line in translated[:5]], abs=1e-4)
    assert log_probs[5] < min(log_probs[:5]) - 5


def test_normalized_scores_are_those_of_search(seq2seq, run, test_set):
    files = (test_set / "src.txt", test_set / "ref.txt")
    scores = list(map(float, seq2seq("score", run, *files, "--normalize")[1].splitlines()))
    translated = seq2seq("translate", run, "--json", stdin=text(SOURCES))[1].splitlines()
    assert scores[:5] == pytest.approx([json.loads(line)["score"] for line in translated[:5]], abs=1e-4)


def test_files_of_different_lengths_are_refused_with_both_counts(seq2seq, run, test_set):
    (test_set / "ref.txt").write_text("one\n")
    files = (test_set / "src.txt", test_set / "ref.txt")
    outcome = seq2seq("score", run, *files)
    assert_refused(outcome, "src.txt has 6 lines")
    assert "ref.txt has 1" in outcome[2]
    assert_refused(seq2seq("evaluate", run, "--src", files[0], "--ref", files[1]), "src.txt has 6 lines")


# ---- evaluate ----


def sacrebleu_command(ref, hyp):
    command = [sys.executable, "-m", "sacrebleu", ref, "-i", hyp, "-m", "bleu", "-w", "15", "-b"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_evaluate_scores_a_test_set_as_the_sacrebleu_command_does(seq2seq, run, test_set, tmp_path):
    files = ("--src", test_set / "src.txt", "--ref", test_set / "ref.txt")
    code, out, err = seq2seq("evaluate", run, *files, "--json", "-o", tmp_path / "written")
    found = json.loads(out)["src.txt"]
    assert (code, err) == (0, "seq2seq: translating src.txt: 6 sentences, beam size 5\n")
    assert found["sentences"] == 6
    hypotheses = tmp_path / "written" / "hyp.txt"
    for references in (test_set / "ref.txt", tmp_path / "written" / "ref.txt"):
        assert f"{found['bleu']:.15f}" == sacrebleu_command(references, hypotheses)


def test_evaluate_scores_the_test_sets_of_the_run(seq2seq, tiny_bundle_folder, tmp_path):
    (tmp_path / "bundle").symlink_to(tiny_bundle_folder)
    for name, references in (("one", TARGETS), ("two", TARGETS[::-1])):
        (tmp_path / "tests" / name).mkdir(parents=True)
        (tmp_path / "tests" / name / "src.txt").write_text(text(SOURCES), encoding="utf-8")
        (tmp_path / "tests" / name / "ref.txt").write_text(text(references), encoding="utf-8")
    code, out, _ = seq2seq("evaluate", tmp_path)
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["test", "set", "sentences", "BLEU", "chrF", "TER", "exact", "length", "cut", "looping"]
    assert rows[1][:7] == ["one", "6", "100.00", "100.00", "0.00", "100.0", "%"]
    assert rows[2][:2] + rows[2][5:7] == ["two", "6", "0.0", "%"]
    assert "bleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in out


def test_evaluate_tells_alignment_and_phenomena_of_a_test_set_whose_answers_are_known(
    seq2seq, tiny_bundle_folder, tmp_path
):
    (tmp_path / "bundle").symlink_to(tiny_bundle_folder)
    folder = tmp_path / "tests" / "test"
    folder.mkdir(parents=True)
    tags = [Tags(("odd", *(("even",) if n % 2 else ())), n % 2, n, 0, 5, "") for n in range(6)]
    known = Gold([Alignment.parse("0-0")] * 6, tags, [Alignment.parse("0-0")] * 6)
    content = {"src.txt": text(SOURCES), "ref.txt": text([*TARGETS[:5], "Falsch."]), **known.files()}
    for name, written in content.items():
        (folder / name).write_text(written, encoding="utf-8")
    found = json.loads(seq2seq("evaluate", tmp_path, "--json")[1])["test"]
    assert found["exact_match_by"]["phenomenon"] == {
        "odd": {"sentences": 6, "exact_match": 5 / 6},
        "even": {"sentences": 3, "exact_match": 2 / 3},
    }
    assert found["alignment"]["baselines"]["ibm_model_1"] == 0.0
    code, out, _ = seq2seq("evaluate", tmp_path)
    assert code == 0
    assert "odd                   83.3 % of 6" in out
    (folder / "gold.tags").unlink()
    assert_refused(seq2seq("evaluate", tmp_path), "gold.tags")


def test_evaluate_says_what_it_needs(seq2seq, run, tmp_path):
    assert_refused(
        seq2seq("evaluate", run), "holds no test sets (tests/NAME/src.txt and ref.txt); give --src and --ref"
    )
    assert_refused(seq2seq("evaluate", run, "--src", "x"), "--src and --ref go together")
    assert_refused(seq2seq("evaluate", run, "-o", tmp_path / "x"), "--output goes with --src and --ref")


# ---- data grammar ----


def test_pairs_of_the_built_in_language_are_shown(seq2seq):
    code, out, err = seq2seq("data", "grammar", "--count", 3, "--seed", 3)
    assert (code, err) == (0, "")
    assert out == "".join(f"{pair.src}\t{pair.tgt}\n" for pair in part("train", count=3, seed=3))


def test_their_words_are_shown_beside_each_other(seq2seq):
    _, out, _ = seq2seq("data", "grammar", "--part", "pronouns", "--count", 2, "--show-alignment")
    pairs = list(part("pronouns", count=2, seed=1))
    shown = [block.split("\n") for block in out.removesuffix("\n\n").split("\n\n")]
    assert [block[:3] for block in shown] == [[pair.src, pair.tgt, str(pair.alignment)] for pair in pairs]
    assert [len(block[3].split("  ")) for block in shown] == [len(pair.alignment.possible) for pair in pairs]


def test_a_corpus_is_written_to_a_new_folder(seq2seq, tmp_path):
    command = ("data", "grammar", "--part", "test", "--count", 5, "--output", tmp_path / "new")
    assert seq2seq(*command) == (0, "", f"seq2seq: writing 5 pairs to {tmp_path / 'new'}: test\n")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "test.align",
        "test.de",
        "test.en",
        "test.tags",
    ]
    code, _, err = seq2seq(*command)
    assert (code, "is there already: name a new folder" in err) == (2, True)


def test_a_part_that_there_is_not_is_refused_with_the_choices(seq2seq):
    assert_refused(seq2seq("data", "grammar", "--part", "exam"), "no part 'exam': choose from train, valid, test")


# ---- Help and usage ----


def test_help_lists_the_commands(seq2seq):
    code, out, _ = seq2seq("--help")
    assert code == 0
    assert all(f"\n  {name} " in out for name in ("train", "translate", "score", "evaluate", "data"))


@pytest.mark.parametrize("name", ["translate", "score", "evaluate"])
def test_every_option_says_what_it_does_and_its_default(name):
    for parameter in get_command(app).commands[name].params:
        assert parameter.help
        if parameter.param_type_name == "option" and parameter.default is None and parameter.name != "ref":
            assert "[default: " in parameter.help or "with --src" in parameter.help


def test_usage_errors_are_plain_and_exit_with_2(seq2seq):
    code, out, err = seq2seq("translate", "--frobnicate")
    assert (code, out) == (2, "")
    assert "No such option: --frobnicate" in err
    assert "─" not in err


# ---- Log lines ----


def test_stderr_tells_what_the_package_is_at_and_the_warnings_of_all(monkeypatch, capsys):
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("seq2seq"), "level", logging.NOTSET)
    log_to_stderr()
    for name in ("seq2seq.somewhere", "elsewhere"):
        logging.getLogger(name).info("3 of %d", 4)
        logging.getLogger(name).warning("odd")
    assert capsys.readouterr().err == "seq2seq: 3 of 4\nseq2seq: warning: odd\nseq2seq: warning: odd\n"
