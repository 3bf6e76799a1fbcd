"""Where symbols come from: files, standard input, folders, data sets and bundled samples, each as one mappable file.

Knows neither the model nor the coder. The optional `datasets` package is imported only when a data set is opened.
"""

from prequential.corpora.alphabet import ByteAlphabet
from prequential.corpora.bundled import sample_path, samples
from prequential.corpora.corpus import DOCUMENT_END, Corpus, Document, Kind
from prequential.corpora.sources import open_corpus
from prequential.corpora.tree import restore_tree

__all__ = [
    "DOCUMENT_END",
    "ByteAlphabet",
    "Corpus",
    "Document",
    "Kind",
    "open_corpus",
    "restore_tree",
    "sample_path",
    "samples",
]
