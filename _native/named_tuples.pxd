"""Many instances of a NamedTuple at once."""

cdef extern from "Python.h":
    object PyType_GenericAlloc(type cls, Py_ssize_t items)

cdef int check_class(type cls) except -1
cdef object tuple_as(type cls, object given)
