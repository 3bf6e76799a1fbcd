"""Where symbols come from: files, standard input, folders, data sets, shards and bundled samples, each as one sequence of bytes.

Knows neither the model nor the coder. The optional `datasets` package is imported only when a data set is opened.
"""

from prequential.corpora.alphabet import ByteAlphabet
from prequential.corpora.bundled import sample_path, samples
from prequential.corpora.corpus import DOCUMENT_END, Corpus, Document, Kind
from prequential.corpora.file_rules import Rules
from prequential.corpora.git_window import GitCorpus, GitDocument, GitDocuments, open_documents, read_tree, read_window
from prequential.corpora.overlap import Overlap, measure_overlap
from prequential.corpora.sources import open_corpus
from prequential.corpora.tree import restore_tree

__all__ = [
    "DOCUMENT_END",
    "ByteAlphabet",
    "Corpus",
    "Document",
    "GitCorpus",
    "GitDocument",
    "GitDocuments",
    "Kind",
    "Overlap",
    "Rules",
    "measure_overlap",
    "open_corpus",
    "open_documents",
    "read_tree",
    "read_window",
    "restore_tree",
    "sample_path",
    "samples",
]
