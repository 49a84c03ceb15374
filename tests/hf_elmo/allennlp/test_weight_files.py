from pathlib import Path

import pytest

from hf_elmo.allennlp import Elmo, ElmoBiLm, batch_to_ids
from hf_elmo.convert.conversion import convert
from tests.hf_elmo.allennlp.original import Original, assert_close
from tests.hf_elmo.models import WORDS


def test_paths_as_strings_and_as_paths(original: Original) -> None:
    for files in (original.files, (original.options_file, original.weight_file)):
        got = Elmo(*files, 1, dropout=0.0)(batch_to_ids([WORDS]))["elmo_representations"][0][0]
        assert_close(got, original.mix(WORDS))


def test_a_converted_folder_in_the_place_of_the_options(original: Original, tmp_path: Path) -> None:
    convert(*original.files, tmp_path / "my-elmo")
    got = Elmo(str(tmp_path / "my-elmo"), None, 1, dropout=0.0)(batch_to_ids([WORDS]))["elmo_representations"][0][0]
    assert_close(got, original.mix(WORDS))


def test_missing_and_halved_files_are_named(
    original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileNotFoundError, match=r"no\.json"):
        ElmoBiLm(tmp_path / "no.json", original.weight_file)
    with pytest.raises(FileNotFoundError, match=r"no\.hdf5"):
        ElmoBiLm(original.options_file, tmp_path / "no.hdf5")
    with pytest.raises(ValueError, match="weight_file: got None"):
        ElmoBiLm(original.options_file)
    with pytest.raises(ValueError, match="weight_file: got None"):
        ElmoBiLm("https://example.org/options.json")
    with pytest.raises(ValueError, match="options_file: got None"):
        ElmoBiLm(None, original.weight_file)
    with pytest.raises(OSError, match="no ELMo model 'no-such-folder'"):
        ElmoBiLm("no-such-folder")


def test_files_of_two_models_are_refused(original: Original) -> None:
    with pytest.raises((ValueError, OSError), match="weights"):
        ElmoBiLm(original.weight_file, original.options_file)
