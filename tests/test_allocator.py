"""Memory that a step has freed is there for the next, without the system's help."""

import os
import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, torch
from concurrent.futures import ThreadPoolExecutor
from seq2seq.allocator import keep_freed_memory
if {keep}: keep_freed_memory()
def steps(_):
    for _ in range(40): [torch.ones(size * 2**18) for size in (1, 20, 7, 40)]  # MiB
with ThreadPoolExecutor() as pool:
    in_turns = map if {threads} == 1 else pool.map
    list(in_turns(steps, range({threads})))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(in_turns(steps, range({threads})))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")


def page_faults(keep: bool, threads: int = 1, **environment: str) -> int:
    rest = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", STEPS.format(keep=keep, threads=threads)],
        env=rest | environment,
        capture_output=True,
        check=True,
    )
    return int(done.stdout)


@glibc_only
def test_the_next_step_takes_what_the_last_has_freed() -> None:
    assert page_faults(keep=True) < 100
    assert page_faults(keep=False) > 10_000  # what would be cleared, in pages: the test above can fail


@glibc_only
def test_so_does_each_of_two_threads() -> None:
    assert page_faults(keep=True, threads=2) < 40
    assert page_faults(keep=False, threads=2) > 10_000


@glibc_only
@pytest.mark.parametrize(
    "environment", [{"MALLOC_MMAP_THRESHOLD_": "65536"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=65536"}]
)
def test_who_has_set_the_allocator_is_left_alone(environment: dict[str, str]) -> None:
    assert page_faults(keep=True, **environment) > 10_000
