"""Finished runs set side by side, and what a model finds hard. Read the files in this order:

- `kinds`           what a run's files must hold to stand in a table
- `runs`            what a finished run has written
- `predictions`     what was predicted before the runs were made
- `baselines`       trivial ways to translate
- `compare`         scores of several runs, differences with intervals; `compare_text` prints them
- `challenges`      search errors, rare words, wide beams; `challenges_text` prints them
- `speed`           how fast runs translate
- `commands`        `seq2seq compare`, `seq2seq speed`, `seq2seq challenge`
"""
