"""Sources of bytes: files, standard input, folders, data sets, shards, git histories and bundled samples."""
