"""The measurements of tools/gpu_check.py, one module each.

They need torch, transformers, numpy and what these bring along; triton and cuda.bindings where there is a GPU.
"""
