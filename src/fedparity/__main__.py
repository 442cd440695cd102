"""`python -m fedparity`: the command line."""

from fedparity.cli.main import main

main()
