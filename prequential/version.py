"""The program's version: archives and records name it."""

VERSION = "0.1.0"
