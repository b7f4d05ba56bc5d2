"""The command line `zonkey`.

The commands are imported when they are called, so that Ctrl-C can end the program meanwhile.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .application import app

__all__ = ["app", "main"]


def main() -> NoReturn:
    """Run the command that the arguments of the program name, and exit."""
    try:
        # Do not fail on a label that the terminal cannot show.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore
        import typer

        from .application import app
        from .errors import output_errors

        try:
            with output_errors():
                app(prog_name="zonkey")
        except typer.Exit as end:
            sys.exit(end.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def __getattr__(name: str) -> Any:
    if name == "app":
        from .application import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
