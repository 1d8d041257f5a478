"""Prepare a model's folder from the package that ships its weights; run by the `weights` environment's interpreter.

`model.py --package NAME==VERSION --file F --quantisation Q --into DIR` leaves in DIR: model.gguf (every matrix
quantised again to Q), tokenizer.json and tokenizer_config.json (made from the same file, so that a client counts as
the server does), and manifest.json, which `look.py` compares with what is wanted. The folder appears whole or not
at all.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants
from tokenizers import AddedToken, Tokenizer, decoders, models
from tokenizers import pre_tokenizers as pre

CONTROL = 3
"""GGUF's token type of special tokens."""


def shipped(package: str, file: str) -> Path:
    """Where the installed package (`NAME==VERSION`) holds the weights."""
    name, _, version = package.partition("==")
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        sys.exit(f"model: package {name} is not in the `weights` environment; add it to tools/envs/weights.in")
    if found.version != version:
        sys.exit(
            f"model: package {name} is here as {found.version}, the model's recipe says {version}; make them agree"
        )
    path = Path(str(found.locate_file(file)))
    if not path.is_file():
        sys.exit(f"model: package {package} holds no file {file}; correct `file` in the model's recipe")
    return path


def copy_fields(reader: GGUFReader, writer: GGUFWriter) -> None:
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, *inner = field.types
        writer.add_key_value(name, field.contents(), kind, inner[-1] if kind is GGUFValueType.ARRAY else None)


def quantise(reader: GGUFReader, kind: str, target: Path) -> None:
    """All matrices as `kind`; vectors stay as they are (they are small, and engines want them exact)."""
    wanted = GGMLQuantizationType[kind]
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_fields(reader, writer)
    writer.add_file_type(LlamaFileType[f"MOSTLY_{kind}"])
    for tensor in reader.tensors:
        data = tensor.data
        if len(tensor.shape) > 1:
            data = quants.quantize(quants.dequantize(data, tensor.tensor_type), wanted)
            writer.add_tensor(tensor.name, data, raw_dtype=wanted)
        else:
            writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tokenizer(reader: GGUFReader, folder: Path) -> None:
    """The file's byte-level BPE as Hugging Face files; ids were compared with the server's own."""

    def field(name: str) -> Any:
        return reader.fields[f"tokenizer.{name}"].contents()

    if field("ggml.pre") != "smollm":
        sys.exit(f"model: the tokenizer's kind is {field('ggml.pre')!r}, only 'smollm' is known; add it to model.py")
    tokens, kinds = field("ggml.tokens"), field("ggml.token_type")
    merges = [tuple(merge.split(" ", 1)) for merge in field("ggml.merges")]
    made = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    byte_level = pre.ByteLevel(add_prefix_space=False, use_regex=True)
    made.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), byte_level])
    made.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[field("ggml.bos_token_id")],
        "eos_token": tokens[field("ggml.eos_token_id")],
        "chat_template": field("chat_template"),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def manifest(folder: Path, wanted: dict[str, str]) -> None:
    files = {}
    for path in sorted(folder.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files[path.name] = {"bytes": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns, "sha256": digest}
    (folder / "manifest.json").write_text(json.dumps({"version": 1, "wanted": wanted, "files": files}, indent=1))


def is_there(wanted: dict[str, str], into: Path) -> bool:
    """Another node that shares the cache may just have made it."""
    try:
        found: bool = json.loads((into / "manifest.json").read_text())["wanted"] == wanted
    except (OSError, ValueError):
        return False
    return found


def prepare(wanted: dict[str, str], into: Path) -> None:
    source = shipped(wanted["package"], wanted["file"])
    if wanted["quantisation"] not in ("Q4_0", "Q4_1", "Q8_0"):
        sys.exit(
            f"model: quantisation {wanted['quantisation']!r} is not one of Q4_0, Q4_1, Q8_0; correct the model's recipe"
        )
    part = into.with_name(f"{into.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    reader = GGUFReader(source)
    quantise(reader, wanted["quantisation"], part / "model.gguf")
    tokenizer(reader, part)
    manifest(part, wanted)
    shutil.rmtree(into, ignore_errors=True)
    part.rename(into)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("package", "file", "quantisation", "into"):
        parser.add_argument(f"--{name}", required=True)
    asked = vars(parser.parse_args())
    into = Path(asked.pop("into"))
    into.parent.mkdir(parents=True, exist_ok=True)
    with into.with_name(f"{into.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        kept = is_there(asked, into)
        if not kept:
            prepare(asked, into)
    sys.stdout.write(f"{'kept' if kept else 'made'} {into.name} {into}\n")


if __name__ == "__main__":
    main()
