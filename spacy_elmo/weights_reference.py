"""Weights that are not saved with a pipeline, but named: where they came from, and their hash."""

from typing import Any, NamedTuple

from hf_elmo import ElmoModel
from hf_elmo.model_source import load_model
from hf_elmo.weights_hash import weights_hash


class WeightsReference(NamedTuple):
    """What is saved in place of weights.

    Attributes:
        source: folder or Hub id; None is the model that comes with hf_elmo.
        revision: branch, tag or commit of a Hub id.
        sha256: of the parameters and options, see [`weights_hash`][hf_elmo.weights_hash.weights_hash].
    """

    source: str | None
    revision: str | None
    sha256: str

    @classmethod
    def of(cls, model: ElmoModel, *, source: str | None, revision: str | None, unchanged: bool) -> "WeightsReference":
        """Refer to the weights of a model.

        Args:
            model: as it is now.
            source: where it came from.
            revision: of a Hub id.
            unchanged: whether that is known to have these weights; otherwise they are compared.

        Raises:
            ValueError: the model has other weights than its source.
            OSError: the source is not there.
        """
        sha256 = weights_hash(model)
        if not unchanged and weights_hash(load_model(source, revision=revision)) != sha256:
            raise ValueError(
                f"save_weights: got false for weights that differ from those of {_named(source, revision)}; expected "
                "save_weights = true, or the weights in a folder of their own (bilm.save_pretrained(folder)) that "
                "`model` names."
            )
        commit = getattr(model.config, "_commit_hash", None)  # of a Hub id; a branch may move on
        return cls(source, revision or commit, sha256)

    @classmethod
    def from_json(cls, content: Any) -> "WeightsReference":
        """Read what `_asdict` gave.

        Raises:
            ValueError: it is no reference.
        """
        if not isinstance(content, dict) or content.keys() != set(cls._fields):
            raise ValueError(f"got a reference to weights with {content!r}; expected source, revision and sha256.")
        return cls(**content)

    def load(self, *, source: str | None, revision: str | None) -> ElmoModel:
        """The weights, found where they came from, or where the configuration says they are now.

        Raises:
            OSError: they are not there.
            ValueError: what is there are others.
        """
        which = revision or (self.revision if source == self.source else None)
        elsewhere = (
            'Where they lie elsewhere now, say so: spacy.load(..., config={"components.elmo.model.name": FOLDER}), or '
            '"components.elmo.model" where the configuration has no block for it (with the component\'s name for elmo).'
        )
        try:
            model = load_model(source, revision=which)
        except OSError as error:
            raise OSError(
                f"the weights of this pipeline were not saved with it (save_weights = false), and are missing: {error} "
                f"{elsewhere}"
            ) from error
        found = weights_hash(model)
        if found != self.sha256:
            raise ValueError(
                f"the weights of this pipeline were not saved with it (save_weights = false), and have changed: got "
                f"SHA-256 {found} from {_named(source, which)}; expected {self.sha256}. Put the old weights back, or "
                f"train the pipeline with the new ones. {elsewhere}"
            )
        return model


def _named(source: str | None, revision: str | None) -> str:
    if source is None:
        return "the model that comes with hf_elmo"
    return f"{source!r}" + (f" at revision {revision!r}" if revision else "")
