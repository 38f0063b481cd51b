"""The measurements of tools/gpu_check.py, one module each.

They need torch, transformers and numpy only; triton and cuda.bindings where there is a GPU, matplotlib for plots.
"""
