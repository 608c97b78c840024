"""Train a translation model: python train.py model=transformer (all options: python train.py --help)."""

from seq2seq.config import main

if __name__ == "__main__":
    main()
