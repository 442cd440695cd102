"""The command line: every command under its name, and every expected error as one line and an exit code.

Exit codes: 0 done; 1 a check failed; 2 bad input, one line on stderr; 3 ended early with partial results written;
130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import click
import typer

from fedparity.cli.attack import attack_command
from fedparity.cli.audit import audit_command
from fedparity.cli.cite import cite_command
from fedparity.cli.claims import claims_command
from fedparity.cli.compare import compare_command
from fedparity.cli.console import ENDED_EARLY, INTERRUPTED, Command, EndedEarlyError, fail, group, print_text
from fedparity.cli.data import data_app
from fedparity.cli.deploy import deploy_app
from fedparity.cli.erase import erase_command
from fedparity.cli.export import export_command
from fedparity.cli.list import list_command
from fedparity.cli.paper import paper_command
from fedparity.cli.report import report_command
from fedparity.cli.run import demo_command, init_command, run_command
from fedparity.cli.schedule import schedule_command
from fedparity.cli.simulate import simulate_command
from fedparity.cli.trace import trace_app
from fedparity.cli.tune import tune_command
from fedparity.cli.verify import verify_command
from fedparity.cli.watch import watch_command
from fedparity.core.errors import FedparityError

LONGEST_SHOWN = 200
"""Characters of a path that an error shows."""
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "init": init_command,
    "run": run_command,
    "compare": compare_command,
    "schedule": schedule_command,
    "tune": tune_command,
    "report": report_command,
    "watch": watch_command,
    "audit": audit_command,
    "verify": verify_command,
    "export": export_command,
    "erase": erase_command,
    "list": list_command,
    "cite": cite_command,
    "paper": paper_command,
    "claims": claims_command,
    "attack": attack_command,
    "simulate": simulate_command,
}

app = group(
    "fedparity",
    "Fair federated learning for clients that come and go.\n\n"
    "fedparity demo\n"
    "fedparity schedule --scheduler all --availability phones\n"
    "fedparity init my.toml && fedparity run my.toml",
    completion=True,
)
for _name, _function in COMMANDS.items():
    app.command(_name, cls=Command)(_function)
app.add_typer(trace_app)
app.add_typer(data_app)
app.add_typer(deploy_app)


def main() -> None:
    """Run the command line; every expected error is one line and an exit code."""
    try:
        code = app(standalone_mode=False, prog_name="fedparity")
        sys.stdout.flush()  # here a full disk is one line; at exit it would be a traceback
    except EndedEarlyError as error:
        fail(str(error), ENDED_EARLY)
    except FedparityError as error:
        fail(str(error))
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        print_text(f"{error.format_message()}\n")  # the help is what was asked for
        sys.exit(0)
    except click.UsageError as error:
        fail(_usage(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):  # PyTorch has no MemoryError
            raise
        fail("not enough memory; take fewer clients, rounds or --workers, or a smaller model or training.batch")
    except OSError as error:
        _refused(error)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _refused(error: OSError) -> NoReturn:
    """End because of what the system refuses: a path, a reader that left, a full disk; what else it is is raised."""
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        sys.exit(1)
    if error.errno in {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP} and error.filename:
        shown = str(error.filename)
        fail(
            f"{shown if len(shown) < LONGEST_SHOWN else f'{shown[:LONGEST_SHOWN]}…'}: {error.strerror}; check the path"
        )
    if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to print is dropped, not tried again at exit
    fail(f"the output cannot be written ({error.strerror}); make room and run it again")


def _usage(error: click.UsageError) -> str:
    """What click says, with one hint: two of its layers add one each."""
    message, *hints = error.format_message().split(" Did you mean ")
    near = f"; did you mean {hints[0].strip()}" if hints else ""
    return f"{message.strip().rstrip('.')}{near} (see {error.ctx.command_path if error.ctx else 'fedparity'} --help)"


def _version(value: bool) -> None:  # noqa: FBT001 - typer calls it
    if value:
        from fedparity import __version__

        print_text(f"fedparity {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
