"""One of several processes of a run in float64: python rank.py SETTINGS, a pickled TrainConfig."""

import pickle
import sys
from pathlib import Path

import torch

from seq2seq.training.fit import fit

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    fit(pickle.loads(Path(sys.argv[1]).read_bytes()))
