"""Continuous batching over the memory core: admission, chunked prefill, preemption, beams. No torch."""
