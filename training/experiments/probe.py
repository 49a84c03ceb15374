"""Multinomial logistic regression on frozen vectors (Peters et al. 2018, section 5.3; Belinkov et al. 2017)."""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression


def probe_accuracy(
    train: NDArray[np.floating],
    train_labels: NDArray[np.int64],
    test: NDArray[np.floating],
    test_labels: NDArray[np.int64],
    *,
    iterations: int = 200,
) -> float:
    """Accuracy on the test words in percent, after L-BFGS on standardised vectors.

    Shape:
        train (N, W), train_labels (N,), test (M, W), test_labels (M,)
    """
    mean, deviation = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64) + 1e-6  # (W,)
    train, test = (((x - mean) / deviation).astype(np.float32) for x in (train, test))
    # A weak penalty, so that the optimum exists.
    classifier = LogisticRegression(C=1.0, max_iter=iterations, tol=1e-3)
    classifier.fit(train, train_labels)
    return 100 * float((classifier.predict(test) == test_labels).mean())
