"""What `scripts/benchmark.py` measures, a module a command; programs that other environments run are in peers/."""
