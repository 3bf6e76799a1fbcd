"""A recorder on a real GPU: the same figures and mistakes as on a processor, and no step waits for the device."""

from pathlib import Path
from typing import Any

import pytest
import torch
from loops import Bigrams, Loop, batches, few_letters

from prequential.errors import CausalityError
from prequential.recording.recorder import FLUSH_STEPS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]


def _on(device: str, data: list[torch.Tensor]) -> list[torch.Tensor]:
    return [rows.to(device) for rows in data]


def _figures(folder: Path, device: str, n_steps: int = 70) -> dict[str, Any]:
    loop = Loop(folder, model=Bigrams().to(device))
    record: dict[str, Any] = loop.run(_on(device, batches(n_steps) + batches(5))).rec.finish().record
    return record


def test_a_gpu_gives_the_figures_of_a_processor(tmp_path: Path) -> None:
    on_gpu, on_cpu = _figures(tmp_path, "cuda"), _figures(tmp_path, "cpu")
    assert on_gpu["code_bits"] == pytest.approx(on_cpu["code_bits"], rel=1e-6)
    assert on_gpu["corpus"] == on_cpu["corpus"]  # the rows
    for name in ("order", "n_rows", "n_checked_steps", "n_audits"):
        assert on_gpu["reported"][name] == on_cpu["reported"][name]
    assert on_gpu["reported"]["repeated"]["n_rows"] == 20


def test_a_model_that_sees_the_future_is_caught_on_a_gpu(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(reach=1).cuda(), audit_every=10)
    with pytest.raises(CausalityError, match=r"step \d+: the model looks ahead"):
        loop.run(_on("cuda", few_letters(60)))


@pytest.mark.parametrize("scores", ["logits", "nll"])
def test_no_step_before_the_reading_waits_for_the_device(tmp_path: Path, scores: str) -> None:
    loop = Loop(tmp_path, model=Bigrams().cuda(), audit_every=0)
    data = _on("cuda", batches(FLUSH_STEPS - 1))
    try:
        for step, rows in enumerate(data):
            if step == FLUSH_STEPS // 2:  # from here on, nothing is read
                torch.cuda.set_sync_debug_mode("error")
            x, y, logits = loop.forward(rows)
            nll = torch.nn.functional.cross_entropy(logits.transpose(1, 2), y, reduction="none")
            loop.rec.score(targets=y, inputs=x, **({"logits": logits} if scores == "logits" else {"nll": nll}))
            loop.learn(logits, y)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert loop.rec.finish().record["reported"]["n_steps"] == FLUSH_STEPS - 1
