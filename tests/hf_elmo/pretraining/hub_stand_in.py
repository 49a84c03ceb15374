"""The Hugging Face Hub, as far as sending a model and loading it again need it, on this machine's loopback."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

TOKEN = "hf_of_a_test"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repository:
    """What was committed, and who may read it: all, or of private and gated ones who has the token."""

    private: bool = False
    gated: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)  # paths that came by Large File Storage
    branches: dict[str, dict[str, bytes]] = field(default_factory=dict)  # files of revisions other than main

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Commit and files of a branch or commit."""
        for name, files in {"main": self.files, **self.branches}.items():
            if revision in (name, commit_of(name)):
                return commit_of(name), files
        return None


def commit_of(branch: str) -> str:
    """The last commit of a branch."""
    return COMMIT if branch == "main" else hashlib.sha1(branch.encode()).hexdigest()


@dataclass
class HubStandIn:
    """Repositories by id, every request, and what to refuse: `{"create": 403}` and the like."""

    endpoint: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    refuse: dict[str, int] = field(default_factory=dict)


@contextmanager
def hub_stand_in() -> Iterator[HubStandIn]:
    """Serves until the block ends."""
    hub = HubStandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hub_of_this_process(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[HubStandIn]:
    """What huggingface_hub and transformers ask in this process, with a cache of its own below `home` and no token."""
    with hub_stand_in() as hub:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + template)
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr("transformers.utils.hub._hf_api", None)  # knows the endpoint of before
        monkeypatch.setenv("DISABLE_SAFETENSORS_CONVERSION", "1")  # asks a service of Hugging Face's
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub


def files_of(folder: Path, under: str = "") -> dict[str, bytes]:
    """A folder's files by their paths in a repository, below `under`."""
    return {under + path.name: path.read_bytes() for path in folder.iterdir()}


class _Handler(BaseHTTPRequestHandler):
    hub: HubStandIn
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self._serve(
            {
                r"/api/repos/create": self._create,
                r"/api/validate-yaml": lambda body: self._json({"errors": [], "warnings": []}),
                r"/api/models/(?P<repo>[^/]+/[^/]+)/preupload/main": self._preupload,
                r"/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch": self._lfs_batch,
                r"/lfs/verify": self._verify,
                r"/api/models/(?P<repo>[^/]+/[^/]+)/commit/main": self._commit,
            }
        )

    def do_PUT(self) -> None:
        self._serve({r"/lfs/(?P<oid>[0-9a-f]{64})": self._lfs_put}, open_to_all=True)

    def do_GET(self) -> None:
        self._serve(
            {
                r"/api/models/(?P<repo>[^/]+/[^/]+)(/revision/(?P<revision>[^/]+))?": self._info,
                r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)": self._file,
            },
            open_to_all=True,
        )

    do_HEAD = do_GET  # noqa: N815  # the name that http.server looks for

    def _serve(self, routes: dict[str, Any], *, open_to_all: bool = False) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not open_to_all and not self._is_owner():
            return self._json({"error": "Invalid username or password."}, 401)
        for pattern, handle in routes.items():
            found = re.fullmatch(pattern, path)
            if found:
                return handle(body, **{name: value for name, value in found.groupdict().items() if value is not None})
        return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})

    def _is_owner(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _may_read(self, repo: str, *, what: str) -> bool:
        """Whether a repository is there for whoever asks; if not, says so as the Hub does.

        All see the info of a gated one.
        """
        found = self.hub.repositories.get(repo)
        gated = found is not None and found.gated and what == "files"
        if found is not None and (self._is_owner() or not (found.private or gated)):
            return True
        if found is not None and found.gated and not found.private:
            status = 403 if "Authorization" in self.headers else 401
            self._json({"error": f"Access to model {repo} is restricted."}, status, {"X-Error-Code": "GatedRepo"})
        else:
            status = 404 if "Authorization" in self.headers else 401
            self._json({"error": "Repository not found"}, status, {"X-Error-Code": "RepoNotFound"})
        return False

    def _create(self, body: bytes) -> None:
        asked = json.loads(body)
        repo = f"{asked['organization']}/{asked['name']}"
        if "create" in self.hub.refuse:
            return self._json({"error": f"You don't have the rights to create {repo}."}, self.hub.refuse["create"])
        answer = {"url": f"{self.hub.endpoint}/{repo}"}
        if repo in self.hub.repositories:
            return self._json({**answer, "error": "You already created this model repo"}, 409)
        self.hub.repositories[repo] = Repository(private=asked.get("visibility") == "private")
        return self._json(answer)

    def _info(self, body: bytes, repo: str, revision: str = "main") -> None:
        if not self._may_read(repo, what="info"):
            return
        found = self.hub.repositories[repo]
        version = found.at(revision)
        if version is None:
            return self._json({"error": f"Invalid rev id: {revision}"}, 404, {"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": path} for path in version[1]]
        return self._json({"id": repo, "private": found.private, "sha": version[0], "siblings": siblings, "tags": []})

    def _preupload(self, body: bytes, repo: str) -> None:
        # As the Hub's .gitattributes has it: weights and pictures are large files, text is not.
        modes = {
            file["path"]: "lfs" if file["path"].endswith((".safetensors", ".png")) else "regular"
            for file in json.loads(body)["files"]
        }
        files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
        return self._json({"files": files})

    def _lfs_batch(self, body: bytes, repo: str) -> None:
        def action(name: str, place: str) -> dict[str, Any]:
            return {name: {"href": f"{self.hub.endpoint}/lfs/{place}"}}

        objects = [
            {**part, "actions": {**action("upload", part["oid"]), **action("verify", "verify")}}
            for part in json.loads(body)["objects"]
        ]
        return self._json({"transfer": "basic", "objects": objects})

    def _lfs_put(self, body: bytes, oid: str) -> None:
        if "lfs" in self.hub.refuse:
            return self._json({"error": "no"}, self.hub.refuse["lfs"])
        if hashlib.sha256(body).hexdigest() != oid:
            return self._json({"error": "damaged on its way"}, 400)
        self.hub.objects[oid] = body
        return self._json({})

    def _verify(self, body: bytes) -> None:
        asked = json.loads(body)
        stored = self.hub.objects.get(asked["oid"], b"")
        return self._json({}, 200 if len(stored) == asked["size"] else 404)

    def _commit(self, body: bytes, repo: str) -> None:
        if "commit" in self.hub.refuse:
            return self._json({"error": "This token may only read."}, self.hub.refuse["commit"])
        repository = self.hub.repositories[repo]
        for line in body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                repository.files[value["path"]] = self.hub.objects[value["oid"]]
                repository.large.add(value["path"])
        return self._json({"commitUrl": f"{self.hub.endpoint}/{repo}/commit/{COMMIT}", "commitOid": COMMIT})

    def _file(self, body: bytes, repo: str, revision: str, path: str) -> None:
        if not self._may_read(repo, what="files"):
            return
        repository = self.hub.repositories[repo]
        version = repository.at(revision)
        if version is None:
            return self._json({"error": f"Invalid rev id: {revision}"}, 404, {"X-Error-Code": "RevisionNotFound"})
        commit, files = version
        if path not in files:
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        content = files[path]
        digest = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": commit, "ETag": f'"{digest}"', "Accept-Ranges": "bytes"}
        if path in repository.large:
            headers |= {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        return self._answer(content, 200, {**headers, "Content-Type": "application/octet-stream"})

    def _json(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        message = {"X-Error-Message": content["error"]} if "error" in content else {}
        all_headers = {"Content-Type": "application/json", **message, **(headers or {})}
        self._answer(json.dumps(content).encode(), status, all_headers)

    def _answer(self, content: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: what was asked is in `requests`."""
