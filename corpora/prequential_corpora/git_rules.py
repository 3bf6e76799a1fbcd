"""Rules that select the files of a repository that people wrote: by name, by content and by .gitattributes.

Each skipped file has a reason (docs/MEASURES.md). It depends only on the path (bytes as git stores them), the contents and
three attributes. An attribute that is *false* overrides the rule by name or content, as on GitHub.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from prequential.errors import ConfigError

# fmt: off
EXTENSIONS: dict[str, str] = {
    extension: language
    for language, extensions in {
        "Assembly": "asm s", "C": "c h", "C#": "cs", "C++": "cc cpp cxx hh hpp hxx ipp", "CMake": "cmake",
        "CSS": "css less scss", "CUDA": "cu cuh", "Clojure": "clj cljc cljs", "D": "d", "Dart": "dart",
        "Elixir": "ex exs", "Elm": "elm", "Erlang": "erl hrl", "F#": "fs fsi fsx", "Fortran": "f f90 f95 f03",
        "GLSL": "frag glsl vert", "Go": "go", "GraphQL": "graphql", "Groovy": "gradle groovy", "HCL": "hcl tf",
        "HTML": "htm html", "Haskell": "hs lhs", "JSON": "json", "Java": "java", "JavaScript": "cjs js jsx mjs",
        "Julia": "jl", "Kotlin": "kt kts", "Lisp": "el lisp scm", "Lua": "lua", "Markdown": "markdown md mdx",
        "Nim": "nim", "Nix": "nix", "OCaml": "ml mli", "Objective-C": "m mm", "PHP": "php", "Perl": "pl pm t",
        "PowerShell": "ps1 psm1", "Protocol Buffers": "proto", "Python": "py pyi pyx", "R": "r",
        "Ruby": "gemspec rake rb", "Rust": "rs", "SQL": "sql", "Scala": "sbt scala", "Shell": "bash sh zsh",
        "Solidity": "sol", "Starlark": "bzl star", "Svelte": "svelte", "Swift": "swift", "TOML": "toml",
        "TeX": "bib sty tex", "Text": "adoc rst txt", "TypeScript": "cts mts ts tsx", "Verilog": "sv v",
        "VHDL": "vhd vhdl", "Vue": "vue", "XML": "xml xsd xsl", "YAML": "yaml yml", "Zig": "zig",
    }.items()
    for extension in extensions.split()
}
FILE_NAMES: dict[str, str] = {
    "build": "Starlark", "build.bazel": "Starlark", "cmakelists.txt": "CMake", "dockerfile": "Dockerfile",
    "gemfile": "Ruby", "gnumakefile": "Make", "justfile": "Make", "license": "Text", "makefile": "Make",
    "rakefile": "Ruby", "readme": "Text", "workspace": "Starlark",
}
LOCK_NAMES = (
    "*.lock", "*.lockb", "*.lockfile", "*-lock.json", "*-lock.yaml", "go.sum", "go.work.sum", "npm-shrinkwrap.json",
    "package.resolved", "packages.lock.json",
)
VENDORED_FOLDERS = (
    "3rdparty", "3rd_party", "_vendor", "bower_components", "carthage", "extern", "external", "externals",
    "node_modules", "pods", "site-packages", "third-party", "third_party", "thirdparty", "vendor", "vendored",
    "vendors", ".venv", "venv", ".yarn",
)
GENERATED_NAMES = (
    "*.min.js", "*.min.css", "*.bundle.js", "*.js.map", "*.css.map", "*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py",
    "*_pb.js", "*_pb.ts", "*.pb.go", "*.pb.gw.go", "*.pb.cc", "*.pb.h", "*.pb.swift", "*.g.dart", "*.freezed.dart",
    "*.g.cs", "*.designer.cs", "*.generated.*", "*.gen.go", "*.gen.ts", "*_generated.go", "*_generated.rs",
    "zz_generated.*", "*.snap",
)
# fmt: on
GENERATED_FOLDERS = ("__generated__", "__snapshots__", "dist")

MAX_FILE_BYTES = 1 << 20  # a longer version of a file is skipped, not cut
BINARY_HEAD_N_BYTES = 8000  # as in git: buffer_is_binary in xdiff-interface.c
GENERATED_HEAD_N_BYTES = 1024
# In a comment line near the top: the tag of Facebook's tools, or the sentence of Go and many other tools.
GENERATED_LINE = re.compile(
    rb"^[ \t]*(?://|#|/?\*|--|;|%|<!--)[^\n]*(?:@" + rb"generated\b|generated[^\n]*do not (?:edit|modify))",
    re.IGNORECASE | re.MULTILINE,
)
# What git holds for a file whose bytes are elsewhere: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
LFS_POINTER = re.compile(
    rb"version https://(?:git-lfs|hawser)\.github\.com/spec/v1\r?\n(?:ext-[^\n]+\n)*oid sha256:[0-9a-f]{64}\r?\nsize \d+\r?\n?"
)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules. The tables of this file are part of them and of `digest`.

    languages: names as in `EXTENSIONS`; None selects all. A file without a known language is always skipped.
    Raises ConfigError for an unknown language.
    """

    languages: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        known = {*EXTENSIONS.values(), *FILE_NAMES.values()}
        if unknown := set(self.languages or ()) - known:
            raise ConfigError(f"unknown languages {sorted(unknown)}; choose from {', '.join(sorted(known))}")

    def digest(self) -> str:
        """BLAKE2b of these rules and their tables, 16 bytes in hexadecimal. Equal digests mean equal selections."""
        languages = self.languages and sorted(set(self.languages))
        chosen = {"languages": languages, "max_file_bytes": MAX_FILE_BYTES}
        lines = [each.pattern.decode() for each in (GENERATED_LINE, LFS_POINTER)]
        patterns = [BINARY_HEAD_N_BYTES, GENERATED_HEAD_N_BYTES, *lines]
        tables = [EXTENSIONS, FILE_NAMES, LOCK_NAMES, VENDORED_FOLDERS, GENERATED_NAMES, GENERATED_FOLDERS, patterns]
        text = json.dumps([chosen, tables], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def refuse_path(self, path: bytes, *, generated: bool | None = None, vendored: bool | None = None) -> str | None:
        """The reason to skip a file because of its path, or None. generated, vendored: the attributes; for None, names decide."""
        *folders, name = path.lower().decode("utf-8", "surrogateescape").split("/")
        language = language_of(path)
        if _matches(name, LOCK_NAMES):
            return "lock"
        if any(folder in VENDORED_FOLDERS for folder in folders) if vendored is None else vendored:
            return "vendored"
        by_name = _matches(name, GENERATED_NAMES) or any(folder in GENERATED_FOLDERS for folder in folders)
        if by_name if generated is None else generated:
            return "generated"
        if language is None or (self.languages is not None and language not in self.languages):
            return "language"
        return None

    def refuse_bytes(self, data: bytes, *, generated: bool | None = None) -> str | None:
        """The reason to skip a file because of its bytes, or None. generated: the attribute."""
        if not data:
            return "empty"
        if b"\0" in data[:BINARY_HEAD_N_BYTES]:
            return "binary"
        if generated is None and GENERATED_LINE.search(data[:GENERATED_HEAD_N_BYTES]):
            return "generated"
        return "lfs" if LFS_POINTER.fullmatch(data) else None


def language_of(path: bytes) -> str | None:
    """The language of a file by its name or extension, in any case; None if it is not known."""
    name = path.rsplit(b"/", 1)[-1].lower().decode("utf-8", "surrogateescape")
    stem, dot, extension = name.rpartition(".")
    return FILE_NAMES.get(name) or (EXTENSIONS.get(extension) if dot and stem else None)


def is_safe(path: bytes) -> bool:
    """Whether a path of a tree stays inside the folder and does not name git's own files. Git refuses other paths too."""
    return not any(part.lower() in (b"", b".", b"..", b".git") for part in path.split(b"/"))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
