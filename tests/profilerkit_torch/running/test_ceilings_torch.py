"""The work that ceilings are measured with: its amounts by their formulas, on so many threads, nothing left behind."""

import torch

from profilerkit_torch.running.ceilings import prepare_work


def test_the_work_of_torch_has_products_convolutions_in_each_layout_and_traffic() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with prepare_work(1) as pieces:
        assert torch.get_num_threads() == 1
        assert {piece.kind for piece in pieces} == {"flops", "bytes", "cached_bytes"}
        layouts = 3 if torch.backends.mkldnn.is_available() else 2
        # 64 x 56 x 56 outputs of 64 x 3 x 3 products, two operations each; twice the channels on half the sides alike
        assert sum(piece.amount == 2 * 64 * 56 * 56 * 64 * 3 * 3 for piece in pieces) == 3 * layouts
        assert sum(piece.amount == 2 * 1024**3 for piece in pieces) == 1
        for piece in pieces:
            piece.call()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
