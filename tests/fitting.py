"""The other half of a component: what it must be used with."""

from fedparity.core.fit import TABLES


def partners(key, text):
    """A choice of a coordinator and every other choice that it needs, as texts by key."""
    found, todo = {key: text}, [key]
    while todo:
        here = todo.pop()
        needs = TABLES[here].build(found[here]).goes_with if here in TABLES else {}
        new = {other: wanted.partition(" or ")[0] for other, wanted in needs.items() if other not in found}
        found |= new
        todo += new
    return found


def built(**texts):
    """The same as components."""
    return {key: TABLES[key].build(text) for key, text in texts.items()}
