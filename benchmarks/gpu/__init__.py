"""The parts of `gpu_check.py`: each is a module with `run(session)`."""
