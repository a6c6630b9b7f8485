"""Finds the files of stored positions, under whatever names they have now (FI-5). Contains no I/O: the caller compares contents."""

from collections.abc import Callable, Iterable, Mapping

from engine.files.listing import Found, Identity
from engine.files.progress import Place


def match_places(places: Mapping[str, Place], files: Iterable[Found], is_same: Callable[[Found, Place], bool]) -> dict[str, Found]:
    """Return the file of each place that has one.

    A file of the same inode comes first, then one of the same name, then any other: it was copied, or compressed after a rotation. In each
    case its content up to the position must be the one that was read.
    """
    matched: dict[str, Found] = {}
    free: dict[Identity, Found] = {found.identity: found for found in files}
    by_inode: dict[int, list[Found]] = {}
    by_name: dict[str, list[Found]] = {}
    for found in free.values():
        by_inode.setdefault(found.identity[1], []).append(found)
        by_name.setdefault(found.name, []).append(found)

    def everything(place: Place) -> list[Found]:
        return list(free.values()) if place.offset else []

    def same_inode(place: Place) -> list[Found]:
        return by_inode.get(place.inode, [])

    def same_name(place: Place) -> list[Found]:
        return by_name.get(place.name, [])

    for candidates_of in (same_inode, same_name, everything):
        for key, place in places.items():
            if key in matched or place.state == "closed":
                continue
            for found in candidates_of(place):
                if found.identity in free and is_same(found, place):
                    matched[key] = free.pop(found.identity)
                    break
    return matched
