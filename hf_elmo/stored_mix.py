"""The scalar mix of a saved model of which other layers are wanted than it was saved with.

Weights stand in a file by their order alone; which layers they are of, its config.json says.  So the mix is loaded as
it was saved, and the layers are chosen by number from it.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.scalar_mix import ScalarMix

# Arguments of from_pretrained that say where the files are.
_PLACE = ("cache_dir", "force_download", "proxies", "local_files_only", "token", "revision", "subfolder")

MixLayers = Sequence[int] | None


class OtherLayers(NamedTuple):
    """The layers that are wanted of a mix saved with others, as in `ElmoConfig.mix_layers`."""

    wanted: MixLayers


def load_as_saved(
    config_class: type[ElmoConfig], source: Any, options: Mapping[str, Any]
) -> tuple[dict[str, Any], OtherLayers | None]:
    """Arguments of from_pretrained by which the mix is loaded as it was saved, and what is wanted of it instead.

    Args:
        config_class: of the model.
        source: the folder or the id.
        options: the arguments that were given.

    Raises:
        ValueError: layers that the model does not have.
    """
    options = dict(options)
    config = options.get("config")
    if source is None or not (isinstance(config, ElmoConfig) or "mix_layers" in options):
        return options, None
    try:
        saved, _ = config_class.get_config_dict(source, **{name: options[name] for name in _PLACE if name in options})
        saved_layers = config_class.from_dict(saved).mix_layers
    except (OSError, ValueError):  # the folder of an adapter, or nothing that can be loaded, which the base class says
        return options, None
    if isinstance(config, ElmoConfig):
        wanted = config.mix_layers
        options["config"] = config = copy.deepcopy(config)
        config.mix_layers = saved_layers
    else:
        wanted = options["mix_layers"]
        sizes = {name: options[name] for name in ("num_hidden_layers",) if name in options}
        wanted = config_class.from_dict(saved, mix_layers=wanted, **sizes).mix_layers  # checked
        options["mix_layers"] = saved_layers
    same = wanted is saved_layers or (wanted and saved_layers and list(wanted) == list(saved_layers))
    return options, None if same else OtherLayers(wanted)


@torch.no_grad()
def choose_layers(
    model: nn.Module, other: OtherLayers, *, num_layers: int, source: object, anew: bool
) -> set[tuple[str, torch.Size, torch.Size]]:
    """Let the mixes of a loaded model read other layers, each with the weight that it was saved with.

    Args:
        model: with its mixes as they were saved; its configuration is changed too.
        other: what is wanted.
        num_layers: of the biLM, the token layer included.
        source: where the model is.
        anew: start a mix anew that has no weight of a layer.

    Returns:
        The weights that were started anew: names, shapes that were saved and are wanted.

    Raises:
        ValueError: a trained mix has no weight of a layer.
    """
    started = set()
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(config, ElmoConfig):
            config.mix_layers = None if other.wanted is None else list(other.wanted)
    for name, module in model.named_modules():
        if not isinstance(module, ScalarMix):
            continue
        try:
            module.read_only(other.wanted, num_layers=num_layers)
        except ValueError as error:
            if not anew:
                raise ValueError(
                    f"{source}: {error}  Or pass ignore_mismatched_sizes=True, to start it anew."
                ) from error
            before = module.weights.shape
            module.start_anew()
            module.read_only(other.wanted, num_layers=num_layers)
            started.add((f"{name}.weights", before, module.weights.shape))
    return started
