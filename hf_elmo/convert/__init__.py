"""Weights of the original programs, read into models of this package."""
