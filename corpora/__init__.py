"""Where symbols come from: files, standard input, folders, data sets, shards, git histories and bundled samples."""
