"""A user's method, kept ready to be called: without the bound-method object in between."""
from cpython.object cimport PyObject

cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject** args, size_t nargsf, PyObject* kwnames)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET

cdef class Method:
    cdef object function
    cdef object owner        # its first argument
    cdef bint bound          # False: a callable that takes no owner


cdef inline object call_none(Method method):
    """method()"""
    cdef PyObject* args[2]
    args[1] = <PyObject*>method.owner
    return PyObject_Vectorcall(method.function, args + 1, (1 if method.bound else 0) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)


cdef inline object call_one(Method method, object argument):
    """method(argument)"""
    cdef PyObject* args[3]
    args[1] = <PyObject*>method.owner
    args[2] = <PyObject*>argument
    if method.bound:
        return PyObject_Vectorcall(method.function, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
    return PyObject_Vectorcall(method.function, args + 2, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
