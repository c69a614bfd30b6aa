"""Prepacked linear layers compute what plain ones do."""

from __future__ import annotations

import pytest
import torch

from kvtop.engine.hf import linears

pytestmark = pytest.mark.skipif(
    not linears.available(torch.float32), reason="this torch has no prepacked linear layers"
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_layers_give_the_same_numbers(dtype: torch.dtype, bias: bool) -> None:
    if not linears.available(dtype):
        pytest.skip(f"no prepacked layers for {dtype}")
    torch.manual_seed(0)
    layer = torch.nn.Linear(512, 640, bias=bias).to(dtype)
    rows = [torch.randn(1, tokens, 512).to(dtype) for tokens in (1, 5, 16, 70)]
    with torch.inference_mode():
        plain = [layer(row) for row in rows]
        copied = linears.pack(torch.nn.Sequential(layer))
        assert type(layer) is linears.PackedLinear and copied == layer.weight.nbytes
        for expected, row in zip(plain, rows, strict=True):
            torch.testing.assert_close(layer(row), expected)


def test_small_float32_layers_and_other_kinds_stay_as_they_are() -> None:
    class Other(torch.nn.Linear):
        pass

    layers = torch.nn.Sequential(
        torch.nn.Linear(8, 8), Other(512, 640), torch.nn.Linear(512, 640, dtype=torch.float16)
    )
    assert linears.pack(layers) == 0
    assert [type(layer) for layer in layers] == [torch.nn.Linear, Other, torch.nn.Linear]


def test_operations_that_are_missing_or_wrong_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", lambda *given: right(*given) * 1.1)
    assert not linears.available(torch.float32)
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
    assert not linears.available(torch.float32)
