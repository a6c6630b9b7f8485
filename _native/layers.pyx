"""The layers of a state, as its bolt looks into them for every tuple (CP-6)."""
from cpython.bytes cimport PyBytes_CheckExact
from cpython.dict cimport PyDict_Contains, PyDict_GetItemWithError, PyDict_SetItem
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact


cdef class Layers:
    """A dict of changes over older ones, all of canonical keys, and reads and writes that are as quick as those of a dict.

    The base of `LayeredState`, whose `_get_rarely` and `_put_rarely` take what is rare: keys of other types than str, int and bytes, values
    that may be changed in place, keys that are in no layer. `deleted` stands for a key that is not there.
    """

    def __cinit__(self, *args, **kwargs):
        self._changes, self._older = {}, ()

    def __init__(self, deleted):
        self._deleted = deleted

    def get(self, key, default=None):
        """Return the value of key, else the default. Sees the task's own uncommitted changes. Raises StateError for what is no key."""
        cdef PyObject* found
        if not is_plain(key):
            return self._get_rarely(key, default)
        found = PyDict_GetItemWithError(self._changes, key)
        if found == NULL:
            found = self.in_older(key)
            if found == NULL or not (is_atom(<object>found) or <object>found is self._deleted):
                return self._get_rarely(key, default)
        return default if <object>found is self._deleted else <object>found

    def put(self, key, value):
        """Set the value of key. Raises StateError for a key of another task's key group, or one that is no key."""
        if is_plain(key) and (PyDict_Contains(self._changes, key) or self.in_older(key) != NULL):
            PyDict_SetItem(self._changes, key, value)
        else:
            self._put_rarely(key, value)

    cdef PyObject* in_older(self, object key) except? NULL:
        """The value of a key in the newest of the older layers that has it; NULL where none has."""
        cdef PyObject* found
        for layer in self._older:
            found = PyDict_GetItemWithError(layer, key)
            if found != NULL:
                return found
        return NULL


cdef inline bint is_plain(object key) noexcept:
    """Tell whether a key is its own canonical form, and always hashable."""
    return PyUnicode_CheckExact(key) or PyLong_CheckExact(key) or PyBytes_CheckExact(key)


cdef inline bint is_atom(object value) noexcept:
    """Tell whether nobody can change a value, so that it is handed out as it is."""
    return PyLong_CheckExact(value) or PyUnicode_CheckExact(value) or PyFloat_CheckExact(value) or PyBytes_CheckExact(value) \
        or value is None or value is True or value is False
