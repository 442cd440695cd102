"""The live view: a run followed while it happens, read from its folder by a process of its own.

`Follower` reads what was committed since it last looked, `told` says it in numbers and one sentence, `server` shows it
on a local page. Nothing here writes to a run: if the page is down, the run does not notice.
"""
