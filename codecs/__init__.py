"""Probabilities to bits and back: range coder, archive format, and the compressors that a learner is compared with.

Knows neither the learner nor corpora. Optional libraries are imported by what uses them, when it is used.
"""

from prequential.codecs.archive import ArchiveReader, ArchiveWriter
from prequential.codecs.archive_block import Block, BlockHead, BlockKind
from prequential.codecs.archive_header import FORMAT_VERSION, Header
from prequential.codecs.archive_summary import ArchiveSummary, Survey, SurveyedBlock, read_payload, summarise, survey
from prequential.codecs.baselines import BASELINES, DEFAULT_BASELINES, BaselineResult, measure, measure_installed
from prequential.codecs.classical import CLASSICAL
from prequential.codecs.compressor import Compressor
from prequential.codecs.frequencies import TOTAL, TOTAL_BITS, frequencies_from, ideal_code_bits
from prequential.codecs.range_coder import BACKENDS, RangeDecoder, RangeEncoder
from prequential.codecs.static import STATIC

__all__ = [
    "BACKENDS",
    "BASELINES",
    "CLASSICAL",
    "DEFAULT_BASELINES",
    "FORMAT_VERSION",
    "STATIC",
    "TOTAL",
    "TOTAL_BITS",
    "ArchiveReader",
    "ArchiveSummary",
    "ArchiveWriter",
    "BaselineResult",
    "Block",
    "BlockHead",
    "BlockKind",
    "Compressor",
    "Header",
    "RangeDecoder",
    "RangeEncoder",
    "Survey",
    "SurveyedBlock",
    "frequencies_from",
    "ideal_code_bits",
    "measure",
    "measure_installed",
    "read_payload",
    "summarise",
    "survey",
]
