"""A model folder to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import validate_repo_id

_DENIED = (401, 403)


class HubError(OSError):
    """The Hub did not take the model."""


def check_repository(repo_id: str) -> None:
    """Check what can be known before anything is written or sent.

    Raises:
        ValueError: no id of the form USER/NAME.
        HubError: nobody is logged in.
    """
    user, slash, name = repo_id.partition("/")
    if not (user and slash and name):
        raise ValueError(f"--push-to-hub: got {repo_id!r}; expected USER/NAME, your name on the Hub and the model's.")
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"--push-to-hub: got {repo_id!r}; {error}") from error


def check_token() -> None:
    """There is a token to send the model with.

    Raises:
        HubError: there is none.
    """
    if get_token() is None:
        raise HubError(
            "--push-to-hub: got no token; expected one that may write.  Log in with `hf auth login`, or set HF_TOKEN."
        )


def files_to_send(folder: Path) -> dict[str, int]:
    """Path in the repository and size in bytes of every file of a folder, in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def push_folder(folder: Path, repo_id: str, *, private: bool = False) -> str:
    """Create the repository if there is none, and commit the folder's files to it.

    Args:
        folder: whose files are sent.
        repo_id: USER/NAME.
        private: the repository is, or is made, one that only its owner sees.

    Returns:
        Its address.

    Raises:
        ValueError: the repository is there and public, though a private one was asked for; nothing was sent.
        HubError: the Hub cannot be reached, or refuses.
    """
    check_token()
    api = HfApi(library_name="hf_elmo")
    try:
        url = api.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not api.model_info(repo_id).private:
            raise ValueError(
                f"--private: got {repo_id}, which is there and public; nothing was sent.  Choose another name, or make "
                "it private in its settings on the Hub."
            )
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload an ELMo biLM")
    except (HTTPError, HubError, OSError, RuntimeError) as error:
        raise HubError(f"{repo_id} was not sent completely: {_reason(error)}") from error
    return str(url)


def _reason(error: BaseException) -> str:
    """A failed request in a line, with what to do about it."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, (HTTPError, OfflineModeIsEnabled)):
        seen = seen.__cause__ or seen.__context__
    if isinstance(seen, HfHubHTTPError):
        status = seen.response.status_code if seen.response is not None else None
        if status in _DENIED:
            return (
                f"{constants.ENDPOINT} answers {status}: the token is not valid, or may not write there.  See "
                "`hf auth whoami`, and make a token with the right to write."
            )
        return f"{constants.ENDPOINT} answers {status}: {seen.server_message or _first_line(seen)}"
    if isinstance(seen, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set; unset it to send."
    if seen is not None:
        return f"{constants.ENDPOINT} cannot be reached ({_first_line(seen)})."
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
