# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The layers of a task's state, which a bolt reads and writes for every tuple (CP-6)."""
from collections.abc import Mapping

from cpython.bytes cimport PyBytes_CheckExact
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF, Py_XINCREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdlib cimport free, realloc
cimport cython

from _native.hash cimport group_of, stable_hash_of

cdef enum:
    FIRST_NOTES = 16
    IDLE_NOTES = 4096      # a list of notes with more room than this is freed

cdef object ZERO = 0
cdef object ONE = 1
cdef object NO_KEY = object()         # stands for the key in the note of a drop
cdef object OF_NAMESPACE = object()   # stands for the value in a note that names the namespace of the note below


cdef class Layers:
    """A dict of changes on top of older dicts, all with canonical keys. Reads and writes are as fast as those of a dict.

    Base of `LayeredState`. Its `_get_slow_path` and `_put_slow_path` handle the rare cases: keys that are not str, int or bytes, mutable
    values, and keys in no layer that may be in the store, or of which it does not know the task. `deleted` is the value of a deleted key.

    During a call (`guarding`), each change notes the previous value, so that a call that raises can be undone (SV-2). The notes are a C
    array with two pointers for each put. They are dropped when the call returns.

    A namespace has layers of its own, with the same fast path. Its `root` is the state, which notes its changes too.
    """

    def __cinit__(self, *args, **kwargs):
        self._changes, self._older = {}, ()

    def __dealloc__(self):
        self.drop_notes()
        free(self.notes)

    def __init__(self, deleted, Layers root=None, groups=None, bint holds_all=False):
        """root: the state of a namespace, which has the notes of all its namespaces.

        groups: the number of key groups, the first one of the task, and the first one behind them; None: keys are not hashed as they are.
        holds_all: a key in no layer is in no store either.
        """
        self._deleted, self.root, self._holds_all = deleted, root, holds_all
        self.key_groups, self.first_group, self.end_group = groups or (0, 0, 0)

    def get(self, key, default=None):
        """Return the value of key, else the default. Sees uncommitted changes of the task. Raises StateError for an invalid key."""
        return self.value_of(key, default)

    def put(self, key, value):
        """Set the value of key. Raises StateError for an invalid key, or a key of another task's key group."""
        self.set_value(key, value)

    def get_many(self, keys, default=None):
        """Return the values of keys, in their order, as `get` does for each."""
        cdef list values = []
        for key in iterable_keys("get_many", keys):
            values.append(self.value_of(key, default))
        return values

    def put_many(self, values):
        """Set the value of each key, as `put` does. values: a mapping, or pairs of a key and its value."""
        if isinstance(values, Mapping):
            values = values.items()
        for key, value in values:
            self.set_value(key, value)

    def add_many(self, amounts):
        """Add to the values of keys. amounts: a mapping of keys to amounts, or keys, each of which adds 1. A missing key has 0."""
        if isinstance(amounts, Mapping):
            for key, amount in amounts.items():
                self.add_value(key, amount)
        else:
            for key in iterable_keys("add_many", amounts):
                self.add_value(key, ONE)

    cdef object value_of(self, object key, object default):
        cdef PyObject* found
        if not is_plain(key):
            return self._get_slow_path(key, default)
        found = PyDict_GetItemWithError(self._changes, key)
        if found == NULL:
            found = self.in_older(key)
            if found == NULL and (self._holds_all or self._is_masked):
                return default
        if found == NULL or not (is_atom(<object>found) or <object>found is self._deleted):
            return self._get_slow_path(key, default)
        return default if <object>found is self._deleted else <object>found

    cdef int set_value(self, object key, object value) except -1:
        cdef PyObject* before
        if is_plain(key) and (is_atom(value) or value is self._deleted):
            before = PyDict_GetItemWithError(self._changes, key)
            if before != NULL or self.in_older(key) != NULL or self.owns(key):
                return note_and_set(self, key, before, value)
        self._put_slow_path(key, value)
        return 0

    cdef int add_value(self, object key, object amount) except -1:
        """Add an amount to the value of a key. In the common case the key is plain and has a number, so no other code can run."""
        cdef PyObject* before = NULL
        cdef PyObject* found = NULL
        if is_plain(key):
            found = before = PyDict_GetItemWithError(self._changes, key)
            if found == NULL:
                found = self.in_older(key)
                if found == NULL and (self._holds_all or self._is_masked) and is_number(amount) and self.owns(key):
                    found = <PyObject*>ZERO
        if found == NULL or not is_number(<object>found) or not is_number(amount):
            return self.set_value(key, self.value_of(key, ZERO) + amount)
        return note_and_set(self, key, before, <object>found + amount)

    cdef bint owns(self, object key):
        """Tell whether a plain key in no layer is one of the task's. False also if only the slow path can tell."""
        cdef uint32_t group
        if self.key_groups == 0:
            return False
        try:
            group = group_of(stable_hash_of(key), self.key_groups)
        except Exception:     # the slow path tells what is wrong with the key
            return False
        return self.first_group <= group < self.end_group

    cdef int note_in_root(self, object key, PyObject* before) except -1:
        """Note a change of this namespace: its first one since the last PREPARE, and in a call the value before."""
        cdef Layers root = self.root
        if not self._is_changed:
            root._note_namespace(self)
        if root.guarding:
            if root.noted + 2 > root.room:
                root.grow_notes()
            root.note_value(key, before)
            root.note_value(self, <PyObject*>OF_NAMESPACE)
        return 0

    def guard_call(self):
        """Note changes from now on, because a call begins."""
        self.drop_notes()
        self.call_var = self.call = None
        self.guarding = True

    def guard_only(self, call_var, call):
        """Note only changes by code in whose context call_var is this call. Other code may run while the call is awaited."""
        self.call_var, self.call = call_var, call

    def end_call(self):
        """Apply the noted changes, and stop noting changes."""
        self.guarding = False
        self.call_var = self.call = None
        self.drop_notes()

    def undo_call(self):
        """Undo every change since the call began, newest first, and stop noting changes."""
        cdef PyObject* key
        cdef PyObject* before
        cdef Layers owner = self
        self.guarding = False
        while self.noted:
            self.noted -= 1
            key, before = self.notes[2 * self.noted], self.notes[2 * self.noted + 1]
            try:
                if before == <PyObject*>OF_NAMESPACE:     # the note below is of this namespace
                    owner = <Layers>key
                else:
                    undo_note(owner, key, before)
                    owner = self
            finally:
                Py_XDECREF(key)
                Py_XDECREF(before)
        self.drop_notes()

    def _note_change(self, key):
        """Note the value of a canonical key before a change. For `_put_slow_path`."""
        if self.root is not None:
            self.note_in_root(key, PyDict_GetItemWithError(self._changes, key))
        elif self.guarding:
            self.note_value(key, PyDict_GetItemWithError(self._changes, key))

    def _note_drop(self, before):
        """Note what `_undo_drop` of this namespace needs, before the namespace is dropped."""
        self.note_in_root(NO_KEY, <PyObject*>before)

    cdef int note_value(self, object key, PyObject* before) except -1:
        if self.call_var is not None and self.call_var.get() is not self.call:
            return 0
        if self.noted == self.room:
            self.grow_notes()
        Py_INCREF(key)
        Py_XINCREF(before)
        self.notes[2 * self.noted], self.notes[2 * self.noted + 1] = <PyObject*>key, before
        self.noted += 1
        return 0

    cdef int grow_notes(self) except -1:
        cdef Py_ssize_t room = 2 * self.room if self.room else FIRST_NOTES
        cdef PyObject** larger = <PyObject**>realloc(self.notes, 2 * room * sizeof(PyObject*))
        if larger == NULL:
            raise MemoryError(f"no memory for {room} notes of changes")
        self.notes, self.room = larger, room
        return 0

    cdef int drop_notes(self) except -1:
        cdef PyObject* key
        cdef PyObject* before
        while self.noted:     # one by one, because a destructor may change the state and note that
            self.noted -= 1
            key, before = self.notes[2 * self.noted], self.notes[2 * self.noted + 1]
            Py_XDECREF(key)
            Py_XDECREF(before)
        if self.room > IDLE_NOTES:
            free(self.notes)
            self.notes, self.room = NULL, 0
        return 0

    cdef PyObject* in_older(self, object key) except? NULL:
        """Return the value of a key in the newest of the older layers that has it, NULL if none has."""
        cdef PyObject* found
        for layer in self._older:
            found = PyDict_GetItemWithError(layer, key)
            if found != NULL:
                return found
        return NULL


cdef inline int note_and_set(Layers layers, object key, PyObject* before, object value) except -1:
    """Set the value of a canonical key. before: its value in the changes."""
    if layers.root is not None:
        layers.note_in_root(key, before)
    elif layers.guarding:
        layers.note_value(key, before)
    PyDict_SetItem(layers._changes, key, value)
    return 0


cdef int undo_note(Layers owner, PyObject* key, PyObject* before) except -1:
    if <object>key is NO_KEY:
        owner._undo_drop(<object>before)
    elif before == NULL:
        owner._changes.pop(<object>key, None)
    else:
        PyDict_SetItem(owner._changes, <object>key, <object>before)
    return 0


@cython.final
cdef class LayerWalk:
    """Walk over the entries of a layer, in parts. The layer must get no new keys meanwhile, but its values may be replaced.

    A walk finds the values without a search for each key. In a large layer each search waits for memory.
    """

    def __init__(self, dict layer not None):
        self.layer, self.position, self.entries = layer, 0, PyDict_Size(layer)

    cdef int check(self) except -1:
        if PyDict_Size(self.layer) != self.entries:
            raise RuntimeError(f"a layer of {self.entries} keys has {PyDict_Size(self.layer)} keys during a walk over it")
        return 0

    def take(self, Py_ssize_t most):
        """Return the keys and the values of up to `most` more entries, as two lists. They are empty at the end."""
        cdef list keys = [], values = []
        cdef PyObject* key
        cdef PyObject* value
        self.check()
        while most > 0 and PyDict_Next(self.layer, &self.position, &key, &value):
            keys.append(<object>key)
            values.append(<object>value)
            most -= 1
        return keys, values

    def move_onto(self, dict older not None, Py_ssize_t most):
        """Write up to `most` more entries to an older layer."""
        cdef PyObject* key
        cdef PyObject* value
        self.check()
        while most > 0 and PyDict_Next(self.layer, &self.position, &key, &value):
            PyDict_SetItem(older, <object>key, <object>value)
            most -= 1


def free_entries(dict layer not None, Py_ssize_t most):
    """Remove up to `most` entries."""
    for _ in range(min(most, len(layer))):
        layer.popitem()


cdef object iterable_keys(str method, object keys):
    """Return the keys. Raises TypeError for a single text, whose characters would be taken for keys."""
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"{method}() takes a collection of keys, not the single key {keys!r}. Write {method}([{keys!r}]).")
    return keys


cdef inline bint is_number(object value) noexcept:
    return PyLong_CheckExact(value) or PyFloat_CheckExact(value)


cdef inline bint is_plain(object key) noexcept:
    """Tell whether a key is its own canonical form, and always hashable."""
    return PyUnicode_CheckExact(key) or PyLong_CheckExact(key) or PyBytes_CheckExact(key)


cdef inline bint is_atom(object value) noexcept:
    """Tell whether a value is immutable, so that the value itself can be returned."""
    return PyLong_CheckExact(value) or PyUnicode_CheckExact(value) or PyFloat_CheckExact(value) or PyBytes_CheckExact(value) \
        or value is None or value is True or value is False
