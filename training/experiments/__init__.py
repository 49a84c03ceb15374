"""The experiments of Peters et al. (2018) on free data, one module for each kind.

They stand next to the script that runs them, not in the packages: who installs ELMo does not need them.
"""
