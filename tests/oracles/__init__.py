"""Independent restatements of ELMo that the library is tested against; they import none of it.

numpy_elmo      the formulas, float64, one sentence at a time: what is right
numpy_training  the same for a training step: its loss and its gradient, derived by hand
plain_torch     the reference's way of running them in PyTorch: the baseline of the benchmarks
random_weights  options and weights of any size, in the layout of the published files
"""
