"""Who has started this process: torchrun and srun say so in environment variables. Without torch: asked before it."""

import os


def launched_by() -> tuple[int, int, int, str] | None:
    """Return rank, world, local rank and the launcher's name; None for a process that is the only one."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        launcher = "torchrun"
    elif "SLURM_STEP_NUM_TASKS" in os.environ:  # of the step, which srun makes: a batch script itself has none
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
        launcher = "srun"
    else:
        return None
    rank, world, local_rank = (int(os.environ[name]) for name in names)
    return (rank, world, local_rank, launcher) if world > 1 else None
