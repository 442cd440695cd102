"""Never run: the nodes of this app are emulated, and answer with an update that is ready."""

from __future__ import annotations

from flwr.clientapp import ClientApp

app = ClientApp()
