"""The demonstration: the paper's sinusoid figure on seven points."""

from __future__ import annotations

from dims_paper.demo.run import DemoResult, DemoSettings, demo_table, run_demo

__all__ = ["DemoResult", "DemoSettings", "demo_table", "run_demo"]
