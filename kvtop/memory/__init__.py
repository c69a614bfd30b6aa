"""The memory under LLM inference: block pool, block tables, prefix cache, swapping. No torch, no screen."""
