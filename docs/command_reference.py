"""The page of the site with all commands and their options, from the parser."""

from argparse import PARSER, Action, ArgumentParser
from collections.abc import Iterator

from prequential.cli.main import COMMANDS, EPILOG, build_parser


def page() -> str:
    """All commands in their groups."""
    (commands,) = (action.choices for action in build_parser()._actions if action.nargs == PARSER)
    parts = ["# Commands\n", f"{EPILOG}\n"]
    for title, group in COMMANDS.items():
        parts.append(f"## {title.capitalize()}\n")
        for command in group:
            parts += section(commands[command.name], level=3)
    return "\n".join(parts)


def section(parser: ArgumentParser, level: int) -> Iterator[str]:
    """The purpose of a command, its example and a table of its arguments; and of the actions below it."""
    actions = [choice for action in parser._actions if action.nargs == PARSER for choice in action.choices.values()]
    yield f"{'#' * level} {parser.prog.removeprefix('prequential ')}\n"
    yield (parser.description or "").partition("\n\nactions:")[0] + "\n"
    if parser.epilog:
        yield f"    $ {parser.epilog.removeprefix('Example: ')}\n"
    for group in parser._action_groups if not actions else ():
        rows = [row for action in group._group_actions for row in [cells(action, parser)] if row]
        if rows:
            yield "\n".join([f"| {(group.title or '').removeprefix('positional ')} | |", "|---|---|", *rows, ""])
    for action in actions:
        yield from section(action, level + 1)


def cells(action: Action, parser: ArgumentParser) -> str:
    """The row of an argument; of --help, which every command has, none."""
    if "--help" in action.option_strings:
        return ""
    words, text = parser._get_formatter()._format_action_invocation(action), (action.help or "").replace("|", "\\|")
    return f"| `{words}` | {text} |"
