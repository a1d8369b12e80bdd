"""Kernels: batched computation of many models of one architecture."""
