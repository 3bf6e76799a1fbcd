"""Header of an archive: what was compressed and how, before the first block.

Configuration and corpus description are canonical JSON, compressed by deflate with a preset dictionary. The reader serialises
the parsed JSON again and compares the bytes. This refuses duplicate keys, NaN, infinities and lone surrogates.
"""

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from prequential.errors import ConfigError, CorruptArchiveError, UnsupportedVersionError
from prequential_codecs.byte_source import ByteSource, varint

# As in PNG: a byte above 127, a name, and line ends that a transfer in text mode would damage.
MAGIC = b"\x8fPRQ\r\n\x1a\n"
FORMAT_VERSION = 1
DIGEST_BYTES = 32
# Entries of `config`: a learner that is not of this program; what ours had read before the first byte.
OTHER, GIVEN = "learner", "given"
MAX_HEADER_BYTES = 1 << 16  # JSON, before and after deflation
# Preset dictionary of deflate. It is part of the format: a different dictionary needs a different FORMAT_VERSION.
HEADER_DICTIONARY = (
    b'"commit":"revision":"n_rows":"n_files":1,"n_skipped":0,"column":"text","separator":"split":"train","kind":"std'
    b'in","sample","dataset","tree","gpt":null,"mixer":null,true,false,512,16,128,256,384,.txt"},"mixer":{"contexts"'
    b':["3","4","6","word","whole line,above2","collapsed6","word2","keyword,gap","match,2","first,line"],"curves":['
    b'"1","2"],"match_bits":20,"sets":["bits,class","classes3","words,known","2,match"],"table_bits":22},{"contexts"'
    b':["2","3","4","word","whole line,above2","collapsed6","word2","keyword,gap","match,2","first,line","word,word3'
    b'-4","groups4","word,gaps","above,next","16","collapsed8","line,above","vowels,length","5","8","match","word3",'
    b'"nest,word","after2,2","skip1,3","skip2-3","first,word","template,next"],"curves":["1","2","word"],"match_bits'
    b'":20,"sets":["bits,class","classes3","words,known","2,match","bits","vowels","history2,length"],"table_bits":2'
    b'2},{"contexts":["1","2","3","4","6","word","whole line,above2","collapsed6","word2","keyword,gap","match,2","f'
    b'irst,line","word,word3-4","groups4","word,gaps","above,next","16","collapsed8","line,above","vowels,length","5'
    b'","8","match","above","word3","word,marks","nest,word","after2,2","skip1,3","skip2-3","first,word","letters5",'
    b'"0","word,1","word,word3","word,2","word2,gap2","11","classes","phrase","skip1,4","template,next"],"curves":["'
    b'1","2","3","expected","word","4","collapsed4","above,1"],"match_bits":20,"sets":["bits","1","bits,known","word'
    b's,gpt","2,match","3","expected","column,above","classes3","bits,class","word","vowels","history2,length","nest'
    b'","suffix","tags","states"],"table_bits":22},{"config":{"gpt":{"beta1":0.9,"beta2":0.99,"context_bits":19,"con'
    b'text_step":0.16,"contexts":["2","3","4","5","6","word","word2","after2","after3","after4","after6","after8","a'
    b'fter12","after16","afterword","afterword2","other4","other6","otherword"],"decay_updates":300,"matrix_step":0.'
    b'04,"memory_bits":0,"mlp_factor":4,"momentum":0.6,"n_embeddings":3,"n_heads":3,"n_layers":2,"vector_step":0.003'
    b',"warmup_updates":5,"width":192,"window":128},"mixer":{"contexts":["0","1","2","3","4","5","6","8","word","wor'
    b'd,1","word2","word,word3","word3","word,2","skip2-3","skip1,3","above","line,above","first,word","classes","ma'
    b'tch","word,marks","11","word,gap","word,gap2,1","gap,word2,1","gaps,words","word2,gap2","word,word4","word,wor'
    b'd3-4","letters5","keyword,gap","keyword,word,1","firstword,word","opened,word","groups4","groups4,2","collapse'
    b'd8","collapsed4,2","collapsed6","skip1,4","above2","above,run","line,1","after1,2","after2,1","after2,2","word'
    b's,next","after3,2","afterword,2","afterword,1","match,1","match,2","vowels,length","vowels6,1","nest","nest,1"'
    b',"nest,word","tag,word","folded4","folded5","sentence,word","word4","owner,identifier","lengths,groups2","case'
    b',word","after4,2","phrase","12","16","paragraph,word","template,next","halves","2,word2","3,word2","first,line'
    b'","word,suffix","word,suffixes2","word,suffixes3","field,next","2,length,suffix","word,initials","word,gaps","'
    b'lengths,gaps","owner2,1","letters4","place,word","whole line","above,next","indent,word","indent,above","whole'
    b' line,above2","inside","inside,nest","tags,word","tags,line","nextword","nextword2","identifier","identifier2"'
    b',"template,number","template2,line","template3","key,value","owner,line"],"curves":["1","2","3","expected","wo'
    b'rd","4","collapsed4","above,1","gpt"],"match_bits":20,"sets":["bits","1","bits,known","words,gpt","2,match","3'
    b'","expected","column,above","classes3","bits,class","word","vowels","history2,length","nest","suffix","tags","'
    b'states","gpt"],"table_bits":23},"schedule":{"block_symbols":262144,"first_segment_symbols":256,"history_bits":'
    b'24,"n_rows":4,"row_symbols":128,"segment_symbols":512},"seed":0},"corpus":{"kind":"file","name":""}}'
)


@dataclass(frozen=True, kw_only=True)
class Header:
    """Everything that an archive states before its first block.

    n_bytes: length of the original, 0..2**63-1. blake2b: BLAKE2b digest of the original, 32 bytes.
    config, corpus: JSON objects that the container does not interpret. Integers fit signed 64 bits and floats are finite.
    """

    n_bytes: int
    blake2b: bytes
    config: dict[str, Any] = field(default_factory=dict)
    corpus: dict[str, Any] = field(default_factory=dict)


def pack_header(header: Header) -> bytes:
    """The first bytes of an archive. Raises ConfigError if `read_header` would not accept config or corpus."""
    try:
        text = _canonical_json({"config": header.config, "corpus": header.corpus})
        _parse_json(text)
    except (TypeError, ValueError, RecursionError, CorruptArchiveError) as error:
        raise ConfigError(f"config or corpus description does not fit an archive header: {error}") from error
    # wbits=-15: raw deflate, without zlib's own header and checksum.
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, HEADER_DICTIONARY)
    deflated = deflater.compress(text) + deflater.flush()
    head = MAGIC + FORMAT_VERSION.to_bytes(2, "little") + varint(header.n_bytes) + header.blake2b
    body = head + varint(len(deflated)) + deflated
    return body + zlib.crc32(body).to_bytes(4, "little")


def read_header(source: ByteSource) -> Header:
    """The header at the start of `source`. Raises UnsupportedVersionError, CorruptArchiveError."""
    if source.take(len(MAGIC)) != MAGIC:
        raise CorruptArchiveError("not a .pq archive: it starts with other bytes")
    version = int.from_bytes(source.take(2), "little")
    if version != FORMAT_VERSION:
        raise UnsupportedVersionError(f"archive format version {version}; this program reads version {FORMAT_VERSION}")
    n_bytes = source.take_varint()
    blake2b = source.take(DIGEST_BYTES)
    deflated_bytes = source.take_varint()
    if deflated_bytes > MAX_HEADER_BYTES:
        raise CorruptArchiveError(f"{deflated_bytes} bytes of description exceed the limit of {MAX_HEADER_BYTES}")
    deflated, inflater = source.take(deflated_bytes), zlib.decompressobj(-15, HEADER_DICTIONARY)
    source.check_checksum()
    try:
        text = inflater.decompress(deflated, MAX_HEADER_BYTES + 1)
    except zlib.error as error:
        raise CorruptArchiveError("the description cannot be decompressed") from error
    if not inflater.eof or inflater.unused_data:
        raise CorruptArchiveError(f"the description does not end, or exceeds {MAX_HEADER_BYTES} bytes")
    return Header(n_bytes=n_bytes, blake2b=blake2b, **_parse_json(text))


def _canonical_json(value: object) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces. Raises TypeError, ValueError or RecursionError."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def _parse_json(text: bytes) -> dict[str, dict[str, Any]]:
    """The objects `config` and `corpus` of a canonical description. Raises CorruptArchiveError."""
    if len(text) > MAX_HEADER_BYTES:
        raise CorruptArchiveError(f"the description exceeds {MAX_HEADER_BYTES} bytes")
    try:
        value = json.loads(text.decode(), parse_int=_int64)
        canonical = _canonical_json(value)
    except (ValueError, RecursionError) as error:
        raise CorruptArchiveError(f"the description is not canonical JSON: {error}") from error
    if canonical != text:
        raise CorruptArchiveError("the description is not canonical JSON")
    if not isinstance(value, dict) or value.keys() != {"config", "corpus"}:
        raise CorruptArchiveError("the description does not consist of config and corpus")
    if not all(isinstance(part, dict) for part in value.values()):
        raise CorruptArchiveError("config and corpus are not both objects")
    return value


def _int64(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 63:
        raise ValueError("an integer exceeds 64 bits")
    return int(digits)


def name_of_given(needed: Any) -> str:
    """What an archive was given, in words. Raises CorruptArchiveError if its header does not say it."""
    if not isinstance(needed, dict) or type(needed.get("n_symbols")) is not int:
        raise CorruptArchiveError("header: it does not say what the learner was given")
    if needed.get("kind") == "model":
        return f"the stored model with digest {str(needed.get('state_digest'))[:16]}"
    return f"the text of {needed['n_symbols']:,} bytes with BLAKE2b {str(needed.get('blake2b'))[:16]}"
