"""One step of generation: schedule, run, advance. Only `kvtop.engine.hf` knows torch."""
