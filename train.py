"""Train a translation model: python train.py model=transformer (all options: python train.py --help)."""

from seq2seq.signals import stop_at_once

if __name__ == "__main__":
    stop_at_once()  # before the imports, which take seconds
    from seq2seq.config import main

    main()
