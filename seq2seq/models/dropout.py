"""Dropout, Srivastava et al. 2014, with masks that are cheap to draw on a CPU."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_VALUES = 2**16  # that the 16 random bits of an element can take
_PER_DRAW = 4  # elements of 16 bits in a 64-bit number


class Dropout(nn.Module):
    """Sets each element to 0 with probability `p` in training, and divides the others by the probability to stay.

    On a CPU torch's own draws a number for each element, one after the other. Here one 64-bit number serves four. A GPU
    draws in parallel, so there it is torch's own.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return `x` with elements dropped; in eval mode `x` itself."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        wide = torch.promote_types(x.dtype, torch.float32)  # bfloat16 would round the factor
        return (x * kept(x.shape, self.p, wide)).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the probability when the model is printed."""
        return f"p={self.p}"


def kept(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """Return independent factors: 0 with probability `p` (rounded to 1 / 2^16), else 1 over the probability to stay."""
    dropped = min(round(p * _VALUES), _VALUES - 1)  # of the values, which are as likely as each other
    count = shape.numel()
    draws = torch.empty(-(-count // _PER_DRAW), dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    stays = draws.view(torch.int16)[:count].view(shape) >= dropped - _VALUES // 2
    return stays.to(dtype).mul_(_VALUES / (_VALUES - dropped))
