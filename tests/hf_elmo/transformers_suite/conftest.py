from pathlib import Path

import pytest

# Marks that transformers gives its common tests.
MARKS = (
    "accelerate_tests",
    "flash_attn_test",
    "flash_attn_3_test",
    "flash_attn_4_test",
    "all_flash_attn_test",
    "fsdp2_test",
    "generate",
    "tensor_parallel_test",
    "torch_compile_test",
    "torch_export_test",
)


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: of transformers' common tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without the slow tests nothing is fetched or imported."""
    return True if "not slow" in config.getoption("markexpr") and collection_path.name.startswith("test_") else None
